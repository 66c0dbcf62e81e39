"""`ldm doctor` says what is there, what is not and what to do, and keeps secrets."""

import json
import re
import sys
import types
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import ldm
from ldm import diagnosis, embed, memory, registry
from ldm.envs import GROUP
from ldm.envs.metadata import metadata as metadata_of_env
from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from tests.cli.conftest import run
from tests.embedder import BagOfWords
from tests.toy import expert_trajectories

SECRET = "sk-planted-0123456789"


PACKAGES = cache(metadata.packages_distributions)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, whatever machine the tests run on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(metadata, "packages_distributions", PACKAGES)


def checks(*args: object) -> dict[str, dict[str, Any]]:
    outcome = run("doctor", "--json", *args)
    return {check["name"]: check for check in json.loads(outcome.out)["checks"]}


def test_everything_needed_is_found_and_the_rest_has_a_remedy() -> None:
    outcome = run("doctor").done(f"{ldm.__version__} in ")
    for section in ("Installed", "Embedder", "Data", "Model service", "Memory"):
        assert f"\n{section}\n" in f"\n{outcome.out}"


def test_of_each_extra_it_says_what_lacks_without_it_and_a_dependency_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extras = [
        extra
        for name in registry.names({}, GROUP)
        if (extra := metadata_of_env(name).extra) is not None
    ]
    lacking = {"chromadb", *(name for extra in extras for name in extra.distributions)}
    versions = metadata.version

    def without_extras(name: str) -> str:
        if name in lacking:
            raise metadata.PackageNotFoundError(name)
        return versions(name)

    monkeypatch.setattr(metadata, "version", without_extras)
    results = checks()
    for extra in extras:
        for name in extra.distributions:
            assert results[name]["status"] == "missing"
            assert extra.purpose in results[name]["detail"]
            assert extra.install in results[name]["remedy"]
    assert results["chromadb"]["status"] == "problem"
    assert run("doctor").code == 1


def test_whatever_is_not_ok_has_a_remedy() -> None:
    results = checks()
    assert {check["status"] for check in results.values()} == {"ok", "missing"}
    assert all(check["remedy"] for check in results.values() if check["status"] != "ok")
    assert results["chromadb"]["status"] == "ok"
    assert results[embed.DEFAULT]["detail"].startswith("in ")
    assert "build-memory" in results[".ldm/memory"]["remedy"]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch, flags: list[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{SECRET}@models.test:8000/v1?key={SECRET}")
    outcome = run("doctor", *flags)
    assert SECRET not in outcome.out + outcome.err
    assert "https://models.test:8000/v1" in outcome.out
    assert "set (not shown)" in outcome.out


@pytest.mark.parametrize("value", ["nonsense", f"http://[{SECRET}", f"http://host:{SECRET}/v1"])
def test_a_base_url_that_is_none_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", value)
    outcome = run("doctor")
    assert "set, but not a URL" in outcome.out
    assert SECRET not in outcome.out


def test_a_memory_is_described_by_its_newest_generation() -> None:
    some, more = expert_trajectories("train"), expert_trajectories("test")
    for trajectories in (some, more):
        build(".ldm/memory", trajectories, BagOfWords("letters"), OfflineReasoner)
    tuples = sum(len(t.steps) for t in (*some, *more))
    check = checks()[".ldm/memory"]
    assert check["status"] == "ok"
    assert check["detail"] == f"toy: {tuples} tuples, generation 1 (formed), embedder letters"


def test_a_directory_that_is_no_memory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert "There is no memory at other" in run("doctor", "--memory", "other").refused().out


def test_without_chroma_the_rest_is_still_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "some").mkdir()
    monkeypatch.setattr(memory, "environments", Mock(side_effect=ImportError("no chromadb")))
    assert checks("--memory", "some")["some"]["status"] == "problem"


def test_a_default_embedder_without_weights_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "bundled_model", lambda: None)
    assert checks()[embed.DEFAULT]["status"] == "missing"


def install(place: Path, name: str, command: str = "") -> None:
    """Leave in `place` what an installation of a distribution with a module `ldm` leaves."""
    folder = place / f"{name.replace('-', '_')}-0.1.3.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.3\n")
    (folder / "top_level.txt").write_text("ldm\n")
    if command:
        (folder / "entry_points.txt").write_text(f"[console_scripts]\nldm = {command}\n")


@pytest.mark.parametrize(("name", "command"), [("latent-diffusion", "main:run"), ("ldm", "")])
def test_another_distribution_with_a_module_ldm_is_a_clash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, command: str
) -> None:
    install(tmp_path / "site", name, command)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(metadata, "packages_distributions", PACKAGES.__wrapped__)
    outcome = run("doctor").refused()
    assert re.search(rf"{name}\b.* also installs a module `ldm`", outcome.out)
    assert "`pip uninstall`, or keep it in an environment of its own" in outcome.out


def test_an_import_error_is_explained_by_the_clash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(tmp_path / "site", "latent-diffusion")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(metadata, "packages_distributions", PACKAGES.__wrapped__)
    monkeypatch.setitem(sys.modules, "ldm.version", None)
    run("--version").refused("latent-diffusion also installs a module `ldm`")


def test_a_foreign_module_ldm_is_told_by_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = types.ModuleType("ldm")
    foreign.__path__ = ["/somewhere/ldm"]
    monkeypatch.setitem(sys.modules, "ldm", foreign)
    monkeypatch.setattr(metadata, "packages_distributions", dict)
    assert "/somewhere/ldm is another project's" in diagnosis.module_clash()

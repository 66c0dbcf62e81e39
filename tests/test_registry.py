"""Names stand for classes, and a wrong name is answered with the nearest right one."""

import sys

import pytest

import ldm
from ldm import registry
from ldm.envs import load_env
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from tests.conftest import announce

BUILTIN = {"toy": "tests.toy:ToyEnv", "lost": "tests.nowhere:Lost", "odd": "tests.toy:Odd"}


def test_installed_packages_add_names_and_do_not_replace_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    echo = "tests.toy:EchoEnv"
    announce(monkeypatch, "ldm.envs", echo=echo, toy=echo, webshop=echo)
    names = registry.names(BUILTIN, "ldm.envs")
    assert names["toy"] == "tests.toy:ToyEnv"
    assert names["webshop"].startswith("ldm.worlds.webshop:")
    assert registry.load("echo", BUILTIN, "ldm.envs", "environment").__name__ == "EchoEnv"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(LdmError, match="There is no environment 'toi'") as caught:
        registry.load("toi", BUILTIN, "none", "environment")
    assert "Did you mean 'toy'?" in caught.value.remedy
    assert "lost, odd, toy" in caught.value.remedy


@pytest.mark.parametrize("name", ["lost", "odd", "tests.toy:None_", ":ToyEnv", ".toy:ToyEnv"])
def test_what_cannot_be_imported_is_named(name: str) -> None:
    with pytest.raises(LdmError, match="cannot be imported"):
        registry.load(name, BUILTIN, "none", "environment")


class Stranger:
    """A class whose author knew only what an environment does."""

    default_split = "test"

    def tasks(self, split: str) -> tuple[()]:
        return ()

    protocol = reset = step = tasks


class Halfway:
    """One that lacks what no default can stand for."""

    def reset(self, task: object) -> None: ...


class Grounded(EnvironmentBase):
    default_split = "test"


def test_a_class_that_lacks_members_is_refused_with_their_names() -> None:
    lacking = "is incomplete: it lacks default_split, protocol, step, tasks"
    with pytest.raises(LdmError, match=lacking) as caught:
        load_env("tests.test_registry:Halfway")
    assert "Derive the class from ldm.episode.EnvironmentBase" in caught.value.remedy


def test_a_class_of_its_own_gets_the_defaults_of_what_it_does_not_declare() -> None:
    env = load_env("tests.test_registry:Stranger")
    assert env.__name__ == "Stranger"
    assert (env.train_splits, env.needs) == ((), "")
    assert env.localize(Stranger(), "as it is") == "as it is"  # type: ignore[arg-type]


def test_a_derived_class_that_leaves_methods_abstract_is_refused_with_their_names() -> None:
    with pytest.raises(LdmError, match="it lacks protocol, reset, step, tasks"):
        load_env("tests.test_registry:Grounded")


def test_listing_names_imports_nothing() -> None:
    sys.modules.pop("tests.nowhere", None)
    assert "lost" in registry.names(BUILTIN, "none")
    assert "tests.nowhere" not in sys.modules


def test_the_public_api_names_no_plug_in() -> None:
    """import-linter does not see dotted names in texts."""
    plugins = tuple(f"ldm.{name}" for name in ("cluster", "interchange", "report", "worlds"))
    assert not [place for place in ldm._MODULES.values() if place.startswith(plugins)]

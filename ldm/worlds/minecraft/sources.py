"""Sources of raw items: trees, animals, ground, rock and veins.

Values are the game's published ones, if there are any, else this world's own (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import TypeAdapter

from ldm.envs.facts import facts

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

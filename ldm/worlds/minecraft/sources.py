"""Sources of raw items: trees, animals, ground, rock and veins.

Values are the game's published ones, if there are any, else this world's own (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

WOODS = ("oak", "spruce", "birch", "jungle", "acacia", "dark_oak")
#: Tools of one sort from the weakest to the strongest.
TIERS = ("wooden", "golden", "stone", "iron", "diamond")

Place = Literal["tree", "animal", "ground", "rock", "vein"]


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


MOBS: Mapping[str, Mob] = {
    "sheep": Mob(8, 12, (("white_wool", 1, 1), ("mutton", 1, 2))),
    "cow": Mob(10, 8, (("beef", 1, 3), ("leather", 0, 2))),
    "pig": Mob(10, 10, (("porkchop", 1, 3),)),
    "chicken": Mob(4, 10, (("chicken", 1, 1), ("feather", 0, 2))),
}


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


VEINS: Mapping[str, Vein] = {
    "coal": Vein(20, 128, 4, 9, 50),
    "iron_ore": Vein(20, 64, 2, 5, 40),
    "gold_ore": Vein(2, 32, 2, 5, 28),
    "redstone": Vein(8, 16, 3, 6, 11),
    "lapis_lazuli": Vein(1, 32, 3, 6, 16),
    "diamond": Vein(1, 16, 1, 6, 11),
    "andesite": Vein(10, 80, 20, 20, 50),
    "diorite": Vein(10, 80, 20, 20, 50),
    "granite": Vein(10, 80, 20, 20, 50),
}

_ORES = {
    "coal": Source("vein", "coal ore", "coal_ore", "wooden_pickaxe"),
    "iron_ore": Source("vein", "iron ore", "iron_ore", "stone_pickaxe"),
    "lapis_lazuli": Source("vein", "lapis ore", "lapis_ore", "stone_pickaxe", 4, 9),
    "gold_ore": Source("vein", "gold ore", "gold_ore", "iron_pickaxe"),
    "redstone": Source("vein", "redstone ore", "redstone_ore", "iron_pickaxe", 4, 5),
    "diamond": Source("vein", "diamond ore", "diamond_ore", "iron_pickaxe"),
    **{
        stone: Source("vein", stone, stone, "wooden_pickaxe")
        for stone in ("andesite", "diorite", "granite")
    },
}
_ANIMAL_PRODUCTS = {
    item: Source("animal", mob, least=least, most=most)
    for mob, animal in MOBS.items()
    for item, least, most in animal.drops
}
_GROUND = {
    "dirt": Source("ground", "dirt", "dirt"),
    "sand": Source("ground", "sand", "sand"),
    "gravel": Source("ground", "gravel", "gravel"),
    "flint": Source("ground", "gravel", "gravel", chance=0.1),
    "clay_ball": Source("ground", "clay", "clay", least=4, most=4),
    "sugar_cane": Source("ground", "sugar cane", "sugar_cane"),
    "wheat_seeds": Source("ground", "grass", "grass", chance=0.125),
}

#: Raw item → its source; exactly these can be mined.
RAW: Mapping[str, Source] = {
    **{f"{wood}_log": Source("tree", f"{wood} tree", f"{wood}_log") for wood in WOODS},
    **{
        f"{wood}_leaves": Source("tree", f"{wood} tree", f"{wood}_leaves", "shears")
        for wood in WOODS
    },
    "cobblestone": Source("rock", "stone", "stone", "wooden_pickaxe"),
    **_ORES,
    **_ANIMAL_PRODUCTS,
    **_GROUND,
}

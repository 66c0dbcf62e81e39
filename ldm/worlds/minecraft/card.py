"""Minecraft's card and metadata, as environment.toml declares them, with all goals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ldm.envs.metadata import declared
from ldm.types import Reading
from ldm.worlds.minecraft.commands import DIRECTIONS
from ldm.worlds.minecraft.rules import FACTS, MOBS, RAW, load_rules

_CARD, METADATA = declared(__file__)


def _reading() -> Reading:
    """Return how observations tell the result of a goal, see `texts`."""
    rules, tools = load_rules("vanilla"), FACTS["tools"]
    words = {goal.rpartition(" ")[2] for goal in _goals()}
    families = {word: rules.members(word) for word in sorted(words)}
    return replace(
        _CARD.reading,
        families={word: own for word, own in families.items() if own and own != (word,)},
        sources={item: source.thing for item, source in RAW.items()} | {mob: mob for mob in MOBS},
        fitting={item: tuple(tools[source.where]) for item, source in RAW.items()}
        | dict.fromkeys(MOBS, tuple(tools["animal"])),
        needing=tuple(item for item, source in RAW.items() if source.tool),
        walks=tuple(f"explore {direction}" for direction in DIRECTIONS),
    )


def _goals() -> Iterator[str]:
    """Yield every goal of the controller: of each item, and of the paper's words for several."""
    rules = load_rules("vanilla")
    raw = sorted({"log", "wool", "seeds", "leaves", *rules.sources})
    words = ["planks", "wooden_slab", "wooden_pressure_plate", "wooden_button", "sign", "fence",
             "fence_gate", "boat", "trapdoor", "wooden_door", "bed", "carpet"]  # fmt: skip
    yield from (f"mine 1 {item}" for item in raw)
    yield from (f"kill 1 {mob}" for mob in MOBS)
    yield from (f"craft 1 {item}" for item in sorted({*words, *rules.recipes}))
    yield from (f"smelt 1 {item}" for item in sorted(rules.smelting))
    yield from (f"equip {tool}" for tool in sorted(rules.uses))
    yield from (f"explore {direction}" for direction in DIRECTIONS)


CARD = replace(_CARD, goals=tuple(_goals()), reading=_reading())
#: The card of worlds in which plans choose: a word for several kinds of wood means oak.
BY_PLAN = replace(
    CARD,
    rules=f"{CARD.rules} {FACTS['by_plan']}",
    reading=replace(
        CARD.reading, sources={**CARD.reading.sources, "log": "oak tree", "leaves": "oak tree"}
    ),
)

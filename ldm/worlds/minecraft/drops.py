"""The drops of blocks and animals, drawn by the world and the number of the draw."""

from __future__ import annotations

import random

from ldm.types import stable_seed
from ldm.worlds.minecraft.rules import Rules
from ldm.worlds.minecraft.sources import MOBS
from ldm.worlds.minecraft.state import State


def dig_up(item: str, state: State, rules: Rules, world: int) -> State:
    """Return the state after digging one unit of a raw item's source, which may yield others.

    Gravel is flint now and then, and most grass holds no seeds.
    """
    source = rules.sources[item]
    if source.block == "gravel":
        number, state = state.drawn("gravel")
        chance = rules.sources["flint"].chance
        return state.plus(
            "flint" if _rng(world, "gravel", number).random() < chance else "gravel", 1
        )
    if source.chance == 1 and source.least == source.most:
        return state.plus(item, source.least)
    number, state = state.drawn(item)
    rng = _rng(world, item, number)
    if rng.random() >= source.chance:
        return state
    return state.plus(item, rng.randint(source.least, source.most))


def slaughter(mob: str, state: State, world: int) -> State:
    """Return the state with the drops of a killed animal."""
    number, state = state.drawn(mob)
    rng = _rng(world, mob, number)
    for item, least, most in MOBS[mob].drops:
        state = state.plus(item, count) if (count := rng.randint(least, most)) else state
    return state


def _rng(world: int, what: str, number: int) -> random.Random:
    return random.Random(stable_seed("drops", world, what, number))

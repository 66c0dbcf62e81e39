"""Durations in ticks of a twentieth of a second; each part is rounded up.

Speeds, damage and intervals are the game's published values; hardness and tools are its data.
"""

from __future__ import annotations

import math

from ldm.worlds.minecraft.rules import Rules
from ldm.worlds.minecraft.sources import FACTS, MOBS
from ldm.worlds.minecraft.state import State

#: Blocks walked in a second.
SPEED = 4.317
#: Ticks for climbing a level, between two blows that do not kill, and for putting a station down.
CLIMB, CHASE, PLACE = 12, 40, 5
#: A craft: each call, and each run of the recipe.
CALL, RUN = 20, 2
EQUIP = 5
#: Ticks of an impossible attempt under the rules of the paper.
VAIN = {"craft": 150, "smelt": 200}

#: Weapon → damage, and ticks between two blows; the hand is "".
_WEAPONS: dict[str, list[int]] = FACTS["weapons"]
#: Ticks between two blocks.
_PAUSE = 6


def walking(blocks: float) -> int:
    """Return the ticks of walking a distance."""
    return math.ceil(20 * blocks / SPEED)


def digging(block: str, tool: str, rules: Rules) -> int:
    """Return the ticks of digging a block with a tool, "" for the hand."""
    of = rules.blocks[block]
    harvests = not of.harvest or tool in of.harvest
    speed = rules.speeds.get((of.material, tool), 1.0) if harvests or not of.harvest else 1.0
    # One over the damage of a tick: how many ticks it takes.
    strokes = of.hardness * (30 if harvests else 100) / speed
    return 0 if strokes < 1 else math.ceil(round(strokes, 9)) + _PAUSE


def digger(block: str, state: State, rules: Rules) -> str:
    """Return the held tool that digs a block quickest, "" for the hand."""
    held = ["", *(tool for tool in sorted(rules.uses) if state.held(tool))]
    return min(held, key=lambda tool: (digging(block, tool, rules), tool))


def killing(mob: str, tool: str) -> tuple[int, int]:
    """Return the ticks of killing an animal, and the blows it takes."""
    damage, interval = _WEAPONS.get(tool, _WEAPONS[""])
    blows = -(-MOBS[mob].health // damage)
    return blows * interval + (blows - 1) * CHASE, blows


def weapon(mob: str, state: State) -> str:
    """Return the held tool that kills an animal quickest, "" for the hand."""
    held = ["", *(tool for tool in _WEAPONS if tool and state.held(tool))]
    return min(held, key=lambda tool: (killing(mob, tool)[0], tool))

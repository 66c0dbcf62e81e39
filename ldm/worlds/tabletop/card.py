"""The tabletop's card and metadata, as environment.toml declares them, with all goals."""

from dataclasses import replace

from ldm.envs.metadata import declared
from ldm.worlds.tabletop.kinds import KINDS

#: Moves until a task is over: k of DEPS, arXiv 2302.01560, App. A.2.
LIMIT = 15

_CARD, METADATA = declared(__file__)
CARD = replace(_CARD, goals=tuple(goal for kind in KINDS.values() for goal in kind.goals()))

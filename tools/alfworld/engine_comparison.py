"""A comparison of ALFWorld's two engines, step by step: the fast one has to be exact.

Compared after every command are the feedback word for word, the admissible commands in their order,
and whether the game is won. Commands come from a solution, then from random walks that mix
admissible commands with ones that are impossible or malformed, and go on after the game is won.
"""

from __future__ import annotations

import copy
import functools
import importlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ldm.types import stable_seed
from ldm.worlds.alfworld.feedback import EngineState, FastEngine
from ldm.worlds.alfworld.games import NOTHING, Game
from tools.alfworld.official_engine import OfficialEngine
from tools.alfworld.solver import plan

_INVALID_SHARE = 0.2
#: How a command is made invalid; "" takes a command of the game that is impossible at present.
_INVALID_FORMS = ("", "", "", "", "{} please", "the {}", "{} 1", "{},", "GO {}", " {} ")


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of what was compared. solved: games whose solution won in both engines."""

    steps: int = 0
    invalid: int = 0
    solved: int = 0
    differences: tuple[str, ...] = field(default=())

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.steps + other.steps,
            self.invalid + other.invalid,
            self.solved + other.solved,
            self.differences + other.differences,
        )


class EngineComparison:
    """Plays games in both engines."""

    def __init__(self, walks: int, length: int, seed: int) -> None:
        """Plan so many random `walks` of so many steps (`length`) in each game, drawn by `seed`."""
        self._walks, self._length, self._seed = walks, length, seed
        self._fast, self._official = FastEngine(), OfficialEngine()

    def play(self, game: Game) -> Tally:
        """Compare the engines on one game."""
        tally = self.follow(game, plan(game))
        for number in range(self._walks):
            rng = random.Random(stable_seed("lockstep", self._seed, game.id, number))
            tally += self._walk(game, rng)
        return tally

    def follow(self, game: Game, commands: Iterable[str]) -> Tally:
        """Compare the engines on commands that should win the game."""
        remember_parses()  # here and not before, because a worker process gets a copy of this
        state, tally = self._start(game)
        for command in commands:
            state, step_tally = self._step(game, command)
            tally += step_tally
        return tally + Tally(solved=int(state.won))

    def _walk(self, game: Game, rng: random.Random) -> Tally:
        state, tally = self._start(game)
        past_commands = list(state.commands)
        for _ in range(self._length):
            command = rng.choice(state.commands)
            if rng.random() < _INVALID_SHARE:
                command = _invalid_command(state, past_commands, rng)
            state, step_tally = self._step(game, command)
            past_commands += state.commands
            tally += step_tally
        return tally

    def _start(self, game: Game) -> tuple[EngineState, Tally]:
        official, ours = self._official.start(game), self._fast.start(game)
        return ours, _difference(game.id, "(start)", official, ours)

    def _step(self, game: Game, command: str) -> tuple[EngineState, Tally]:
        official, ours = self._official.step(command), self._fast.step(command)
        tally = Tally(steps=1, invalid=int(official.feedback == NOTHING))
        return ours, tally + _difference(game.id, command, official, ours)


def _invalid_command(state: EngineState, past_commands: list[str], rng: random.Random) -> str:
    """Return a command that the engines should refuse, now and then one with spaces around it."""
    for _ in range(20):
        template = rng.choice(_INVALID_FORMS)
        command = (
            template.format(rng.choice(state.commands)) if template else rng.choice(past_commands)
        )
        if command not in state.commands:
            return command
    return ""


def _difference(name: str, command: str, official: EngineState, ours: EngineState) -> Tally:
    if ours == official:
        return Tally()
    parts = []
    if ours.feedback != official.feedback:
        parts.append(f"answers {ours.feedback!r}, not {official.feedback!r}")
    if ours.commands != official.commands:
        extra = sorted(set(ours.commands) - set(official.commands))
        missing = sorted(set(official.commands) - set(ours.commands))
        parts.append(f"lists {extra} too many and not {missing}")
    if ours.won != official.won:
        parts.append(f"won {ours.won}, not {official.won}")
    return Tally(differences=(f"{name}: {command}: {'; '.join(parts)}",))


def remember_parses() -> None:
    """Cache the engine's repeated work in this process from now on; its answers stay the same.

    The engine parses the same texts and conditions and translates the same problem repeatedly;
    these results are cached. It also copies everything that the names in a text refer to, which
    is never modified, so that copying the names is enough. Benchmarks run without this cache.
    """
    texts: Any = importlib.import_module("textworld.envs.pddl.textgen")
    translator: Any = importlib.import_module("fast_downward")
    if hasattr(texts, "_remembers"):
        return
    texts._remembers = True
    parse = functools.cache(texts._parse_and_convert)
    # The caller modifies the result, so that each call gets a copy.
    texts._parse_and_convert = lambda *args, **kwargs: copy.deepcopy(parse(*args, **kwargs))
    texts.copy_context = lambda context: {
        **context,
        "variables": dict(context["variables"]),
        "mapping": dict(context["mapping"]),
    }
    query = functools.cache(texts.Rule.parse_conjunctive_query)
    texts.Rule = type("Rule", (texts.Rule,), {"parse_conjunctive_query": staticmethod(query)})
    translator.pddl2sas = functools.lru_cache(maxsize=2)(translator.pddl2sas)

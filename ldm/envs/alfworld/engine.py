"""Interface of the ALFWorld engines: `fast.py` is ours, `official.py` wraps TextWorld's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ldm.envs.alfworld.games import Game


@dataclass(frozen=True, slots=True)
class EngineState:
    """A moment of a game.

    feedback: the engine's answer to the last command, or its introduction, word for word.
    commands: the admissible commands, sorted, in the game's own grammar.
    won: whether the game's goal holds.
    """

    feedback: str
    commands: tuple[str, ...]
    won: bool


class Engine(Protocol):
    """Plays one game at a time."""

    def start(self, game: Game) -> EngineState:
        """Start `game` from the beginning, whether or not it was played before."""
        ...

    def step(self, command: str) -> EngineState:
        """Execute a command; an inadmissible one is answered and changes nothing."""
        ...

    def why_not(self, command: str, *, existence: bool = False) -> str:
        """Return a sentence on why a command is not admissible, "" if the engine has none.

        existence: say also which objects do not exist.
        """
        ...

    def fork(self) -> Engine:
        """Return an independent engine in the same state, or raise ForkUnsupported."""
        ...

    def close(self) -> None:
        """Release libraries and files; closing twice is harmless."""
        ...

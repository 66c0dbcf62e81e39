"""ALFWorld's official engine, which ours is compared with: TextWorld on the Fast Downward library.

`ALFWorld(options, OfficialEngine())` plays with it, a thousand times slower.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from ldm.errors import ForkUnsupported, LdmError
from ldm.worlds.alfworld.feedback import EngineState
from ldm.worlds.alfworld.games import Game, entity_names, grammar_flaw

#: The packages of the engine.
PACKAGES = ("alfworld", "textworld", "fast_downward")
INSTALL = "Install the packages for development: make setup."
_UNKNOWN_GOAL = "UNKNOWN GOAL."


class OfficialEngine:
    """Play games with textworld 1.7.0; a state cannot be copied."""

    def __init__(self) -> None:
        """Raise LdmError if a package is missing."""
        for package in PACKAGES:
            if importlib.util.find_spec(package) is None:
                raise LdmError(
                    f"ALFWorld's official engine is not installed: {package} is missing.", INSTALL
                )
        self._env: Any = None
        self._playing = ""

    def start(self, game: Game) -> EngineState:
        """Start `game`. Raise LdmError if the packages are missing or cannot load it."""
        if self._env is None:
            self._env = _new_env()
        data, arguments = as_data(game), sys.argv
        try:
            if game.digest != self._playing:
                self._playing = ""
                self._env.load(data)
                self._playing = game.digest
            return _state(self._env.reset())
        except Exception as error:  # the engine's parsers raise exceptions of many types
            raise LdmError(
                f"The engine cannot load the game {game.id}: {type(error).__name__}: {error}",
                "Find damaged files with: ldm data alfworld PATH.",
            ) from error
        finally:
            sys.argv = arguments  # Fast Downward's translator replaces it

    def step(self, command: str) -> EngineState:
        state, _, _ = self._env.step(command)
        return _state(state)

    def why_not(self, command: str) -> str:
        """Return "": the engine does not say why a command is not admissible."""
        return ""

    def fork(self) -> OfficialEngine:
        raise ForkUnsupported(
            "The official engine of ALFWorld cannot copy its state.",
            "Replay the actions from reset.",
        )

    def close(self) -> None:
        # The planner's library stays loaded, at 2 MB per engine: after fast_downward.close_lib,
        # loading it again crashed the process in our tests (a segmentation fault in dlopen).
        self._env = None
        self._playing = ""


def _state(state: Any) -> EngineState:
    return EngineState(state.feedback, tuple(state["admissible_commands"]), bool(state["won"]))


def as_data(game: Game) -> dict[str, str]:
    """Return a game in the form that the official engine reads.

    Our own games need the package alfworld. Raise LdmError if it is missing, or if the grammar
    holds code: the engine evaluates the contents of its braces.
    """
    domain, grammar = game.domain, game.grammar
    if not domain:
        domain = _installed("alfred.pddl").read_text(encoding="utf-8")
        grammar = _installed("alfred.twl2").read_text(encoding="utf-8")
        grammar = grammar.replace(_UNKNOWN_GOAL, json.dumps(game.goal)[1:-1])
    if flaw := grammar_flaw(grammar):
        raise LdmError(
            f"The game {game.id} is not played: {flaw}.",
            "Download the games: ldm data alfworld --to FOLDER.",
        )
    return {"pddl_domain": domain, "grammar": grammar, "pddl_problem": game.problem}


def _installed(name: str) -> Path:
    """Return a data file of the alfworld package, without importing it.

    Raise LdmError if the package is not installed.
    """
    spec = importlib.util.find_spec("alfworld")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise LdmError("The package 'alfworld' is not installed.", INSTALL)
    return Path(folders[0]) / "data" / name


def _new_env() -> Any:
    """Return a TextWorld environment that gives things their readable names.

    In the original, `load` and `reset` each translate the problem; here `load` only reads the game,
    which halves the time to the first observation.
    """
    try:
        pddl = importlib.import_module("textworld.envs.pddl.pddl")
        core = importlib.import_module("textworld.core")
        importlib.import_module("fast_downward")
    except ImportError as error:
        raise LdmError(f"ALFWorld's engine is not installed: {error}.", INSTALL) from error

    class NamedPddlEnv(pddl.PddlEnv):  # type: ignore[misc, name-defined]
        def load(self, data: dict[str, str]) -> None:
            self._game_file = None
            self._game_data = data
            self.walkthrough = None
            self._logic = pddl.pddl_logic.GameLogic(
                domain=data["pddl_domain"], grammar=data["grammar"]
            )
            self._readable: Any = None

        @property
        def _entity_infos(self) -> Any:
            if self._readable is None:
                self._readable = self._get_entity_infos()
                for name, readable in entity_names(self._readable).items():
                    self._readable[name].name = readable
            return self._readable

    return NamedPddlEnv(core.EnvInfos(won=True, admissible_commands=True))

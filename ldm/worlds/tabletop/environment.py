"""The tabletop environment: tasks, texts and rewards on top of the physics.

A scene depends on its kind and its number, and splits share no number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from ldm.envs._base import ListedEnvironment, unknown_task
from ldm.envs.metadata import declared
from ldm.errors import LdmError
from ldm.types import Card, Task, TimeStep, stable_hash, stable_seed
from ldm.worlds.tabletop.actions import LOOK, Move, Refusal, normal
from ldm.worlds.tabletop.kinds import KINDS, Kind
from ldm.worlds.tabletop.physics import INSTALL, State, World, version
from ldm.worlds.tabletop.scene import Pose, Poses, Scene

#: Moves until a task is over: k of DEPS, arXiv 2302.01560, App. A.2.
LIMIT = 15

_CARD, METADATA = declared(__file__)
CARD = replace(_CARD, goals=tuple(goal for kind in KINDS.values() for goal in kind.goals()))


def whereabouts(kind: Kind, scene: Scene, poses: Poses) -> str:
    """Return the place of each thing, in a sentence."""
    places = zip(scene.things, kind.whereabouts(scene, poses), strict=True)
    return " ".join(f"The {thing.name} is {place}." for thing, place in places)


ENV = "tabletop"
TRAIN, TEST, TEST100 = "train", "test", "test100"
#: The numbers of each split: 40 of a kind to learn from; five seeds as in DEPS; 20.
SPLITS = {TRAIN: range(40), TEST: range(1000, 1005), TEST100: range(2000, 2020)}
_SEED = 2302_01560


class Game(NamedTuple):
    """A task with its kind and its scene."""

    task: Task
    kind: Kind
    scene: Scene


def games(split: str) -> list[Game]:
    """Return the games of one of SPLITS: each number in all kinds, then the next number."""
    return [game(split, kind, number) for number in SPLITS[split] for kind in KINDS]


def game(split: str, kind: str, number: int) -> Game:
    """Return the game of a kind with any number, also one that no split lists."""
    rules = KINDS[kind]
    source = f"{kind}:{number}"
    task = Task(f"{split}/{kind}/{number}", ENV, split, rules.instruction, kind, source)
    return Game(task, rules, rules.draw(random.Random(stable_seed(ENV, _SEED, kind, number))))


def game_of(task: Task) -> Game:
    """Return the game of a task; raise LdmError if it is not this environment's."""
    kind, _, number = task.source.rpartition(":")
    if kind in KINDS and number.isdecimal() and len(number) < 10:
        played = game(task.split, kind, int(number))
        if played.task == task:
            return played
    raise unknown_task("Tabletop", task)


def _poses(scene: Scene) -> list[Pose]:
    starts = [thing.start for thing in scene.things]
    fixtures = [fixture.pose for fixture in scene.fixtures]
    return [*starts, *fixtures, *(hole.pose for hole in scene.holes)]


def _place(pose: Pose) -> list[float]:
    """Return a pose as JSON values, to the micrometre: the last digits may differ by machine."""
    return [round(value, 6) for value in (pose.x, pose.y, pose.z, pose.yaw)]


#: Of a noisy hand: the deviation in x and in y, in metres; the probability that it picks nothing.
NOISE, MISS = 0.008, 0.1


@dataclass(frozen=True, slots=True)
class TabletopOptions:
    """Options of the tabletop. A list of possible actions makes some kinds of task easy."""

    controller: Annotated[Literal["exact", "noisy"], "A hand that is exact, or one that errs"] = (
        "exact"
    )
    admissible: Annotated[bool, "List the possible actions"] = True


@dataclass(frozen=True, slots=True)
class Play:
    """The state of a task; never modified, only replaced.

    state: of the physics. share: the share of targets met. actions: the number of possible actions
    so far. moves: those among them that reached for a thing.
    """

    game: Game
    world: World
    state: State
    share: float = 0.0
    actions: int = 0
    moves: int = 0

    @property
    def over(self) -> bool:
        return self.share >= 1.0 or self.actions >= LIMIT


class Tabletop(ListedEnvironment[Game]):
    """Five tasks of rearranging things on a table, with real physics (DEPS, App. A.2).

    An episode ends when all targets are met, or after 15 actions; its score is the share of targets
    that are met then. Undoing one is a negative reward.
    """

    card: Card = CARD
    paper = "DEPS, arXiv 2302.01560, App. A.2; the tasks are CLIPort's"
    needs = f"its physics: {INSTALL.replace(chr(34), chr(39))}"
    default_split = TEST
    train_splits = (TRAIN,)
    splits = tuple(SPLITS)
    metadata = METADATA
    Options = TabletopOptions
    options: TabletopOptions
    _play: Play | None = None

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation names the things, their places, and the task."""
        game = self._game(task)
        world = World(game.scene)
        self._play = play = Play(game, world, world.start())
        kind, places = game.kind, whereabouts(game.kind, game.scene, play.state.poses)
        text = f"{kind.opening(game.scene)}\n{places}\nTask: {kind.instruction}"
        return TimeStep(text, admissible=self._admissible(play))

    def _act(self, action: str) -> TimeStep:
        play = self._play
        assert play is not None  # noqa: S101 - a task is running
        if play.over:
            return TimeStep("The task is over.", done=True, admissible=self._admissible(play))
        action = normal(action)
        if action == LOOK:
            return self._proceed(play, replace(play, actions=play.actions + 1), "")
        move = play.game.kind.understand(action, play.game.scene, play.state.poses)
        if isinstance(move, Refusal):
            return TimeStep(move.reason, admissible=self._admissible(play), valid=False)
        return self._carry_out(move, play)

    def prepare(self) -> None:
        """Load MuJoCo now, before threads run: importing it beside them may disturb them."""
        with suppress(LdmError):  # the first reset raises it
            version()

    @property
    def poses(self) -> Poses:
        """The present poses of the things, in the order of the scene."""
        return self._play.state.poses if self._play else ()

    def _carry_out(self, move: Move, play: Play) -> TimeStep:
        game, drawn = play.game, self._target(move, play)
        state = play.state if drawn is None else play.world.carry(play.state, move.thing, drawn)
        share = game.kind.share(game.scene, state.poses)
        done = replace(play, actions=play.actions + 1, moves=play.moves + 1)
        after = replace(done, state=state, share=share)
        name = game.scene.things[move.thing].name
        if drawn is None:
            report = f"You reach for the {name}, but the gripper does not get hold of it."
        else:
            report = f"You carry the {name} to {move.goal} and let go."
        return self._proceed(play, after, report)

    def _target(self, move: Move, play: Play) -> Pose | None:
        """Return where the hand puts a thing, or None if it misses it; it may be noisy."""
        if self.options.controller == "exact":
            return move.target
        rng = random.Random(stable_seed("tabletop controller", play.game.task.source, play.moves))
        if rng.random() < MISS:
            return None
        x, y = (at + rng.gauss(0, NOISE) for at in (move.target.x, move.target.y))
        return replace(move.target, x=x, y=y)

    def _proceed(self, before: Play, after: Play, report: str) -> TimeStep:
        """Store the state after an action, and return its answer."""
        earned = after.share - before.share
        self._play = after
        places = whereabouts(after.game.kind, after.game.scene, after.state.poses)
        text = f"{report} {places}" if report else places
        return TimeStep(text, earned, after.over, self._admissible(after))

    def _admissible(self, play: Play) -> tuple[str, ...] | None:
        """Return the possible actions, in an order that does not reveal the solution."""
        if not self.options.admissible:
            return None
        if play.over:
            return ()
        commands = play.game.kind.commands(play.game.scene, play.state.poses)
        return tuple(sorted((*commands, LOOK)))

    def _games(self, split: str) -> Iterator[tuple[Task, Game]]:
        return ((game.task, game) for game in games(split))

    def _game(self, task: Task) -> Game:
        return game_of(task)  # also one that no split lists

    def _digest(self, games: list[Game]) -> str:
        """Return a hash of the tasks of a split and their initial poses."""
        return stable_hash(
            [
                [one.task.id, one.kind.opening(one.scene), *map(_place, _poses(one.scene))]
                for one in games
            ]
        )

    def _conditions(self) -> Mapping[str, Any]:
        return {
            "mujoco": version(),
            "controller": self.options.controller,
            "limit": LIMIT,
            "admissible": self.options.admissible,
        }

"""The Minecraft environment: tasks, units of actions until control returns, and rewards.

Tasks are the items of DEPS (arXiv 2302.01560, Tables 9 to 16), other items, and several at once:
`tasks.json` beside this module lists them; `scripts/make_minecraft.py` writes it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from ldm.envs._base import ListedEnvironment
from ldm.envs.metadata import declared
from ldm.types import Card, Positive, Reading, Task, TimeStep, stable_hash, stable_seed
from ldm.worlds.minecraft import commands, controllers, texts
from ldm.worlds.minecraft.commands import DIRECTIONS, Command, Refusal, State, Tools, Way
from ldm.worlds.minecraft.controllers import Controller, ControllerName, Oracle, Paper
from ldm.worlds.minecraft.map import World
from ldm.worlds.minecraft.rules import FACTS, MOBS, RAW, Rules, RuleSet, load_rules, wood_order

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


ENV = "minecraft"
TEST, TEST_WORLDS, PARALLEL, TRAIN, TRAIN_WORLDS = SPLITS = (
    "test", "test_worlds", "parallel", "train", "train_worlds",
)  # fmt: skip
TaskSet = Literal["measured69", "listed76"]
Start = Literal["plains", "any"]

#: Ticks by kind; without a map, a number of actions replaces them.
LIMITS: dict[str, int] = FACTS["limits"]
#: Goals from which combinations are drawn, and the worlds for each size of combination.
PARALLEL_GOALS = (("log", 3), ("wool", 1), ("beef", 1), ("porkchop", 1), ("chicken", 1))
PARALLEL_WORLDS = 100


@dataclass(frozen=True, slots=True)
class Target:
    """Items to hold: `count` of any of the items of a word."""

    word: str
    count: int
    items: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.count} {self.word}"


class Listed(NamedTuple):
    """A task of the paper.

    word: its name of the item; targets: the corresponding items of 1.16. skills: the printed number
    of skills. measured: whether a success rate was published (Table 21).
    """

    number: int
    kind: str
    word: str
    targets: tuple[str, ...]
    skills: int
    measured: bool


class Game(NamedTuple):
    """A task with its world.

    limit: ticks. start, mobs: the first place, and whether herds are put there.
    """

    task: Task
    targets: tuple[Target, ...]
    world: int
    limit: int
    start: Start | None = None
    mobs: bool | None = None


@cache
def listed_tasks() -> tuple[Listed, ...]:
    """Return the 76 tasks of the paper."""
    return tuple(Listed(n, k, w, tuple(t), s, m) for n, k, w, t, s, m in _data()["listed"])


@cache
def training_items() -> Mapping[str, tuple[str, int]]:
    """Return item → kind and number of the world of the other items, for memories.

    The world is the first of five in which the expert makes the item in time.
    """
    return {item: (kind, number) for item, kind, number in _data()["train"]}


def games(split: str, rules: Rules, task_set: TaskSet, worlds: int) -> Iterator[Game]:
    """Yield the games of one of SPLITS in their order."""
    if split == PARALLEL:
        number = PARALLEL_WORLDS * worlds
        yield from (_parallel(k, n, rules) for k in (2, 3, 4) for n in range(number))
        return
    if split == TRAIN:
        for item, (kind, number) in training_items().items():
            yield _single(split, item, (item,), kind, number, rules)
        return
    for listed in listed_tasks():
        if listed.measured or (task_set == "listed76" and split != TRAIN_WORLDS):
            for number in range(worlds):
                yield _single(split, listed.word, listed.targets, listed.kind, number, rules)


def _single(
    split: str, word: str, items: tuple[str, ...], kind: str, number: int, rules: Rules
) -> Game:
    group = "test" if split in (TEST, TEST_WORLDS) else split
    source = f"{word}@{group}/{number}" if split == TEST_WORLDS else word
    members = tuple(dict.fromkeys(name for item in items for name in rules.members(item)[:1]))
    target = Target(word, 1, members)
    task = Task(f"{split}/{word}/{number}", ENV, split, f"obtain {target}", kind, source)
    limit = LIMITS["MT8"] if split == TRAIN else LIMITS[kind]
    return Game(task, (target,), stable_seed(ENV, group, word, number), limit)


def _parallel(goals: int, number: int, rules: Rules) -> Game:
    world = stable_seed(ENV, PARALLEL, goals, number)
    rng = random.Random(stable_seed("goals", world))
    places = sorted(rng.sample(range(len(PARALLEL_GOALS)), goals))
    targets = tuple(
        Target(word, count, rules.members(word))
        for word, count in (PARALLEL_GOALS[place] for place in places)
    )
    words = ", ".join(map(str, targets[:-1])) + f" and {targets[-1]}"
    kind = f"parallel{goals}"
    source = f"{'+'.join(target.word for target in targets)}@{goals}/{number}"
    task = Task(f"{PARALLEL}/{goals}/{number}", ENV, PARALLEL, f"obtain {words}", kind, source)
    return Game(task, targets, world, LIMITS[kind], start="any", mobs=False)


def _data() -> Any:
    return json.loads(Path(__file__).with_name("tasks.json").read_text("utf-8"))


#: Actions of an episode without a map.
ACTIONS = 100


@dataclass(frozen=True, slots=True)
class MinecraftOptions:
    """Options of Minecraft.

    rules: "paper" counts as DEPS' tables do. controller: skills of "paper" fail as often as DEPS'
    did; with "none" only recipes count and there is no map. nearest: if false, the choice is left
    to the plan, as in DEPS, whose controllers see a picture and keep no map. tools: "held" takes
    the best tool that is held, "stated" only what the action names. limit: actions without a
    controller.
    """

    rules: Annotated[RuleSet, "Rules of the game, or those that DEPS' tables count by"] = "vanilla"
    controller: Annotated[ControllerName, "Pursues goals: never failing, as DEPS', none"] = "oracle"
    start: Annotated[Start, "Begin in the nearest plains or anywhere"] = "plains"
    nearest: Annotated[bool, "Mine the nearest of several woods, and remember places"] = True
    mobs: Annotated[bool, "Place herds near the start"] = True
    given: Annotated[Literal["diamond_axe", "none"], "Item held at the start"] = "diamond_axe"
    task_set: Annotated[TaskSet, "The paper's tasks with a published rate, or all"] = "measured69"
    worlds: Annotated[Positive, "Worlds of each task"] = 1
    limit: Annotated[Positive | None, "Ticks of a task; none: as published"] = None
    slice: Annotated[Positive, "Ticks after which an action returns control"] = 600
    tools: Annotated[Tools, "Use the best tool held, or the one that is named"] = "held"
    feedback: Annotated[Literal["plain", "fine"], "Whether refusals give the reason"] = "plain"
    admissible: Annotated[bool, "List the possible actions"] = True


class Minecraft(ListedEnvironment[Game]):
    """Gather, craft and smelt an item in a seeded world (Wang et al., arXiv 2302.01560).

    The reward is 1 when the target is held, which ends the task; of several targets each earns its
    share once. A fork copies a reference to the state, which is never modified.

    targets, situation, world: what to obtain, the present state and the map, None if only recipes
    count; for measurements, as agents see the observation only.
    """

    card: Card = CARD
    paper = "Minecraft as in DEPS, arXiv 2302.01560"
    needs = "nothing"
    default_split = TEST
    train_splits = (TRAIN, TRAIN_WORLDS)
    splits = SPLITS
    metadata = METADATA
    Options = MinecraftOptions
    options: MinecraftOptions
    world: World | None = None
    targets: tuple[Target, ...]
    situation: State
    _controller: Controller
    _limit: int
    _done: bool

    def __init__(self, options: MinecraftOptions | None = None) -> None:
        super().__init__(options)
        self.card = CARD if self.options.nearest else BY_PLAN
        self.rules = load_rules(self.options.rules)
        self._without_map = self.options.controller == "none"

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the goal, the limit and the surroundings."""
        game = self._game(task)
        self.targets = game.targets
        self._limit = self.options.limit or (ACTIONS if self._without_map else game.limit)
        self._done = False
        self._controller = self._control(game)
        self.situation = self._controller.start(
            () if self.options.given == "none" else ("diamond_axe",)
        )
        unit = "actions" if self._without_map else "ticks"
        return self._answer(f"Task: {task.goal} within {self._limit} {unit}.")

    def _act(self, action: str) -> TimeStep:
        """Carry out an action until it is done, its slice is over, a tool breaks or time is up."""
        if self._done:
            return TimeStep(texts.TIME_UP, done=True)
        command = commands.parse(action, self.rules)
        if isinstance(command, Refusal):
            return self._refused(command)
        if command.verb == "mine" and not self.options.nearest:
            command = replace(command, items=(min(command.items, key=wood_order),))
        how = commands.way(command, self.situation, self.rules, self.options.tools)
        if isinstance(how, Refusal):
            if how.material and self.options.rules == "paper":
                return self._in_vain(command, how)
            return self._refused(how)
        return self._carry_out(command, how)

    def _control(self, game: Game) -> Controller:
        self.world = None
        if self._without_map:
            return Controller(self.rules, game.world)
        herded = self.options.mobs if game.mobs is None else game.mobs
        start, remembered = game.start or self.options.start, self.options.nearest
        self.world = World(game.world, start=start, herded=herded, remembered=remembered)
        kind = Paper if self.options.controller == "paper" else Oracle
        return kind(self.rules, self.world, stated=self.options.tools == "stated")

    def _carry_out(self, command: Command, how: Way) -> TimeStep:
        """Return the answer after the units that fit into the slice and the time limit."""
        start, gained, broken = self.situation, 0, ""
        reward = 0.0
        while True:
            unit = self._controller.unit(command, how, self.situation, command.count - gained)
            if self._over(unit.after):
                break
            self.situation, gained, broken = unit.after, gained + unit.gained, unit.broken
            reward += self._pay()
            if unit.failed:
                return self._ended(texts.NOTHING, reward)
            if self._done or broken or gained >= command.count:
                break
            if self.situation.tick - start.tick > self.options.slice:
                return self._ended(texts.answer(command, gained), reward)
        if not self._done and not self._over(self.situation):
            unit = self._controller.finish(self.situation)
            if not self._over(unit.after):
                self.situation = unit.after
        return self._ended(texts.answer(command, gained, broken=broken), reward)

    def _over(self, after: State) -> bool:
        """Return whether a state is past the time limit, and if so end the task."""
        if self._without_map or after.tick <= self._limit:
            return False
        self.situation = replace(self.situation, tick=self._limit)
        self._done = True
        return True

    def _ended(self, text: str, reward: float) -> TimeStep:
        """Return the answer to an action that was carried out."""
        self.situation = replace(self.situation, actions=self.situation.actions + 1)
        if not self._done and self._without_map and self.situation.actions >= self._limit:
            self._done = True
            return self._answer(text, texts.TIME_UP, reward=reward)
        return self._answer(text, reward=reward)

    def _in_vain(self, command: Command, refusal: Refusal) -> TimeStep:
        """Return the answer to an attempt that cannot succeed and costs time (rules: paper)."""
        time = 0 if self._without_map else controllers.VAIN[command.verb]
        after = self.situation.later(time)
        if not self._over(after):
            self.situation = after
        return self._ended(self._why(refusal), 0.0)

    def _refused(self, refusal: Refusal) -> TimeStep:
        return self._answer(self._why(refusal), valid=False)

    def _why(self, refusal: Refusal) -> str:
        fine = self.options.feedback == "fine"
        return f"{texts.NOTHING} {refusal.reason}" if fine else texts.NOTHING

    def _pay(self) -> float:
        """Return the reward of targets held for the first time; end the task with the last one."""
        targets, paid = self.targets, self.situation.paid
        held = self.situation.held
        now = {str(target) for target in targets if held(*target.items) >= target.count} - paid
        if not now:
            return 0.0
        self.situation = replace(self.situation, paid=paid | now)
        self._done = len(self.situation.paid) == len(targets)
        # The shares of an episode add up to 1 exactly.
        return len(self.situation.paid) / len(targets) - len(paid) / len(targets)

    def _answer(self, *sentences: str, reward: float = 0.0, valid: bool = True) -> TimeStep:
        state = self.situation
        text = "\n".join(filter(None, [" ".join(sentences), *self._view(state)]))
        listed = None
        if self.options.admissible:
            listed = tuple(commands.possible(state, self.rules, self.options.tools))
        return TimeStep(text, reward=reward, done=self._done, admissible=listed, valid=valid)

    def _view(self, state: State) -> Iterator[str]:
        if self.world is None:
            yield f"Actions: {state.actions} of {self._limit}."
            yield texts.inventory(state)
            return
        yield f"Time: {state.tick} of {self._limit}. {texts.place(state, self.world)}"
        yield texts.inventory(state)
        yield from texts.surroundings(state, self.world)

    def _games(self, split: str) -> Iterator[tuple[Task, Game]]:
        chosen = games(split, self.rules, self.options.task_set, self.options.worlds)
        return ((game.task, game) for game in chosen)

    def _digest(self, games: list[Game]) -> str:
        return stable_hash([(game.task.id, game.task.source, game.world) for game in games])

    def _conditions(self) -> Mapping[str, Any]:
        return {**asdict(self.options), "recipes": self.rules.digest}

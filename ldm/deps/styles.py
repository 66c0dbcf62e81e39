"""Options of DEPS and the planners beside it, and the form of each one's plans (App. G)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from ldm.agents import demonstrations
from ldm.agents.decomposition.logic import parse_plan
from ldm.agents.loop import TaskOptions
from ldm.deps.parser import MOST_GOALS, Goal, Parser, Vocabulary, listing
from ldm.errors import LdmError
from ldm.reason.excerpts import without_goal
from ldm.records import Problem, parse
from ldm.text import read_bytes
from ldm.types import Amount, Count, Positive

Method = Literal["deps", "dep", "gpt", "gpt_rp", "progprompt", "cot", "im", "cap"]
Arm = Literal["none", "random", "similarity", "horizon"]
Form = Literal["code", "steps", "program", "thinking", "policy", "next"]


class Style(NamedTuple):
    """The form of a method's plans, whether it replans, and whether it explains before that."""

    form: Form
    replans: bool = False
    explains: bool = False


STYLES: Mapping[Method, Style] = {
    "deps": Style("code", replans=True, explains=True),
    "dep": Style("code", replans=True, explains=True),
    "gpt": Style("steps"),
    "gpt_rp": Style("steps", replans=True),
    "progprompt": Style("program"),
    "cot": Style("thinking"),
    "im": Style("next"),
    "cap": Style("policy"),
}


@dataclass(frozen=True, slots=True)
class DepsOptions(TaskOptions):
    """Options of DEPS and the planners that it is compared with.

    method (§4.1, App. D, G): deps describes, explains, plans and selects; dep has no selector; gpt
    writes one plan, gpt_rp replans from the description; progprompt and cap write programs, cot an
    inventory after each step, im only the next goal.
    selector (§3.3, §4.3.1): none keeps the plan's order, random draws, similarity takes the goal
    nearest in meaning to the observation, horizon that with the smallest predicted time, the most
    probable goal of Eq. 2. The default is horizon for deps if there is a model for the environment,
    and none otherwise. rounds: Table 4, §4.3.2. parser: llm asks a model to read the lines that the
    rules cannot (App. C.4). temperature: §4.1 keeps the service's default; the authors' code has
    0.7 for plans. goal_steps, actions: App. A.1 has a model as the controller, and 50 steps in all.
    admissible: App. A.1. card, scene: the paper's prompts for Minecraft hold neither rules nor a
    scene (App. G.1), and its zero-shot planners ignore the state (Fig. 7). strength: of the
    executor of goals; skills unless published. The lengths are ours.
    """

    method: Annotated[Method, "The planner: DEPS or a baseline of the paper"] = "deps"
    selector: Annotated[Arm | None, "Which of the goals that can be pursued is next"] = None
    horizon: Annotated[str | None, "File with a trained horizon model"] = None
    horizon_digest: Annotated[str | None, "Digest of that file; set by ldm"] = None
    rounds: Annotated[Count, "Maximum number of new plans"] = 8
    parser: Annotated[Literal["rules", "llm"], "How plans are read"] = "rules"
    temperature: Annotated[Amount, "Sampling temperature of plans and explanations"] = 0.0
    plan: Annotated[Positive, "Maximum tokens of a plan"] = 600
    explanation: Annotated[Positive, "Maximum tokens of an explanation"] = 120
    goal_steps: Annotated[Positive, "Maximum steps of an executor for a goal"] = 20
    admissible: Annotated[bool, "Show executors the possible actions, if listed"] = True
    scene: Annotated[bool, "Show planners the first observation"] = True
    max_goals: Annotated[Positive, "Maximum goals read from a plan; in all for im"] = MOST_GOALS

    def __post_init__(self) -> None:
        if self.selector not in (None, "none") and self.method in ("im", "cap"):
            raise ValueError(f"{self.method} has no plan to select from: leave selector out")

    @property
    def style(self) -> Style:
        """The style that defines the method."""
        return STYLES[self.method]


#: Suffix of the companion of a demonstration file that holds their rounds: task id → rounds.
ROUNDS = ".rounds.json"


@dataclass(frozen=True, slots=True)
class Noted:
    """A round in a file: its plan, and the comments on it afterwards.

    done: the number of its goals that were done, None for all. scenes, thoughts: what was there
    before each goal that was tried, and what it takes.
    """

    plan: str | tuple[str, ...]
    done: int | None = None
    description: str = ""
    explanation: str = ""
    scenes: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()


class Round(NamedTuple):
    """A round as it is noted, the goals of its plan, and the number of those that were done."""

    noted: Noted
    goals: tuple[Goal, ...]
    done: int


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration for planners: a task, the initial scene, and rounds of plans."""

    task: str
    opening: str
    rounds: tuple[Round, ...]

    @property
    def course(self) -> tuple[Goal, ...]:
        """All the goals that were done, as one plan."""
        done = [goal for one in self.rounds for goal in one.goals[: one.done]]
        return tuple(replace(goal, rank=rank) for rank, goal in enumerate(done, 1))


def examples(
    env: str, place: str | None, kind: str, shots: int, vocabulary: Vocabulary
) -> tuple[Example, ...]:
    """Return up to `shots` demonstrations with rounds, or else divisions of tasks.

    place: as for `demonstrations.load`. Raise LdmError if a file is damaged.
    """
    by_task = _rounds(place, env)
    known = [one for one in demonstrations.load(env, place) if one.task.id in by_task]
    if known:
        parser = Parser(vocabulary)
        return tuple(
            Example(
                one.task.goal,
                without_goal(one.opening, one.task.goal),
                tuple(_round(data, parser) for data in by_task[one.task.id]),
            )
            for one in demonstrations.chosen(known, kind, shots)
        )
    return tuple(islice(_divided(env, place), shots)) if vocabulary.free else ()


def _divided(env: str, place: str | None) -> Iterator[Example]:
    """Yield examples from divisions whose parts are all to be done in order."""
    for one in demonstrations.divisions(env, place):
        plan = parse_plan(one.plan or one.detailed)
        if one.tried or getattr(plan.logic, "operator", "and") == "or" or plan.logic is None:
            continue
        goals = tuple(
            Goal(text.split()[0].casefold(), rank=rank, text=text)
            for rank, text in enumerate(plan.steps.values(), 1)
        )
        opening = without_goal(one.seen, one.task)
        yield Example(one.task, opening, (Round(Noted(""), goals, len(goals)),))


def _round(noted: Noted, parser: Parser) -> Round:
    lines = noted.plan
    goals = parser.plan(lines if isinstance(lines, str) else "\n".join(lines)).goals
    return Round(noted, goals, len(goals) if noted.done is None else noted.done)


def _rounds(place: str | None, env: str) -> Mapping[str, Sequence[Noted]]:
    path = demonstrations.path_of(env, place).with_suffix(ROUNDS)
    return _read(path) if path.is_file() else {}


@lru_cache(maxsize=16)
def _read(path: Path) -> Mapping[str, Sequence[Noted]]:
    by_task = parse(read_bytes(path), dict[str, tuple[Noted, ...]], str(path), 1, foreign=True)
    if isinstance(by_task, Problem):
        raise LdmError(
            f"{by_task}: this does not map task ids to rounds.",
            "A round is an object with plan, done, description and explanation "
            "(docs/usage/deps.md).",
        )
    return by_task


def text_of(example: Example, style: Style, *, scene: bool = True) -> str:
    """Return an example as the prompt of a method shows it. scene: with what was there at first.

    The rounds that failed are in it if the method replans, explanations if it asks for them.
    """
    form = style.form
    head = f"Task: {example.task}"
    if scene:
        head += f"\nAt first: {' '.join(example.opening.split()) or 'nothing'}"
    if form == "next":
        return "\n".join([head, *_monologue(example)])
    if not style.replans:
        return f"{head}\n{plan_text(example.course, form, example.task)}"
    parts = [head]
    for one in example.rounds:
        parts.append(plan_text(one.goals, form, example.task))
        if one.noted.description:
            parts.append(f"Description: {one.noted.description}")
        if style.explains and one.noted.explanation:
            parts.append(f"Explanation: {one.noted.explanation}")
    return "\n".join(parts)


def plan_text(goals: Sequence[Goal], form: Form, task: str) -> str:
    """Return goals as a plan of this form; sentences are numbered in any form."""
    numbered = [replace(goal, rank=rank) for rank, goal in enumerate(goals, 1)]
    if any(not goal.item for goal in numbered) or form in ("steps", "next"):
        return "\n".join(map(_step, numbered))
    return _WRITERS[form](numbered, task)


def _step(goal: Goal) -> str:
    return f"Step {goal.rank}: {replace(goal, tool='').words}"


def effect(goal: Goal) -> str:
    """Return a goal with its materials and tool: craft 1 torch from 1 stick, on a table."""
    used = f" from {listing(goal.materials)}" if goal.materials else ""
    tool = f" with {goal.tool}" if goal.tool else ""
    return f"{goal.verb} {goal.count} {goal.item}{used}{tool}"


def call_text(goal: Goal) -> str:
    """Return a goal as a call: craft({"torch": 4}, {"coal": 1, "stick": 1}, null);."""
    materials = f", {json.dumps(dict(goal.materials))}" if goal.materials else ""
    tool = f'"{goal.tool}"' if goal.tool else "null"
    return f'{goal.verb}({{"{goal.item}": {goal.count}}}{materials}, {tool});'


def _code(goals: Sequence[Goal], task: str) -> str:
    return "\n".join(f"{call_text(goal)} # step {goal.rank}: {effect(goal)}" for goal in goals)


def _program(goals: Sequence[Goal], task: str) -> str:
    names = dict.fromkeys(f"{goal.verb}_{goal.item}" for goal in goals)
    lines = [f"from actions import {', '.join(names)}", f"def {_function(task)}(inventory):"]
    lines += [
        f"    {goal.verb}_{goal.item}(num = {goal.count}) # step {goal.rank}" for goal in goals
    ]
    return "\n".join(lines)


def _thinking(goals: Sequence[Goal], task: str) -> str:
    lines = []
    held: dict[str, int] = {}
    for goal in goals:
        _apply(goal, held)
        lines += [f"Step {goal.rank}: {effect(goal)}", f"Thinking: then I hold {listing(held)}"]
    return "\n".join(lines)


def _policy(goals: Sequence[Goal], task: str) -> str:
    lines = [f"def {_function(task)}(inventory):"]
    held: dict[str, int] = {}
    for goal in goals:
        needed = held.get(goal.item, 0) + goal.count
        _apply(goal, held)
        tool = f'"{goal.tool}"' if goal.tool else "None"
        lines.append(f'    while not inventory.has({{"{goal.item}": {needed}}}):')
        parts = [*goal.materials, *([(goal.tool, 1)] if goal.tool else [])]
        lines += [
            f'        assert inventory.has({{"{item}": {count}}}), "{count} {item} missing"'
            for item, count in parts
        ]
        lines.append(f'        {goal.verb}(obj="{goal.item}", tool={tool})')
    return "\n".join(lines)


def _monologue(example: Example) -> Iterator[str]:
    """Yield scene, goal, thought and success of each goal that was tried."""
    for one in example.rounds:
        tried, noted = one.goals[: one.done + 1], one.noted
        texts = zip_longest(tried, noted.scenes[: len(tried)], noted.thoughts[: len(tried)])
        for number, (goal, scene, thought) in enumerate(texts):
            if scene:
                yield f"Scene: {scene}"
            yield f"Goal: {_step(goal).partition(': ')[2]}"
            if thought or goal.item:
                yield f"Thought: {thought or _needs(goal)}"
            yield f"Success: {'yes' if number < one.done else 'no'}"
    yield "Goal: done"


def _needs(goal: Goal) -> str:
    """Return the requirements of a goal, as a thought."""
    parts = [listing(goal.materials)] if goal.materials else []
    parts += [goal.tool] if goal.tool else []
    return f"this takes {' and '.join(parts) or 'no tool'}"


def _apply(goal: Goal, held: dict[str, int]) -> None:
    """Add the goal's product to `held`, and remove the materials used up."""
    held[goal.item] = held.get(goal.item, 0) + goal.count
    for item, count in goal.materials:
        held[item] = max(0, held.get(item, 0) - count)


def _function(task: str) -> str:
    """Return a name for a function that does a task."""
    words = "_".join("".join(c if c.isalnum() else " " for c in task.casefold()).split())
    return words[:60] or "task"


_WRITERS: Mapping[Form, Callable[[Sequence[Goal], str], str]] = {
    "code": _code,
    "program": _program,
    "thinking": _thinking,
    "policy": _policy,
}

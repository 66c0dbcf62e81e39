"""The contents of a decision's prompt, within its budget: the course so far, examples, actions.

Constant parts come first in the prompt, so that a server reads them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.prompts import shortened
from ldm.reason import Process, State
from ldm.reason.excerpts import Passage, excerpt, fitted, level, without_goal
from ldm.reason.prompting import DEMONSTRATION, OVERHEAD
from ldm.reason.replies import SUB_GOAL
from ldm.types import Card, History, Past, Recall, StateActionTuple

#: Characters of an action that are shown, and of the goal of an example.
ACTION_LENGTH = 300
EXAMPLE_GOAL = 400
#: Minimum characters of an example's observation; with less room there are fewer examples.
LEAST_EXAMPLE = 160
#: Characters of the rules that are shown.
RULES_LENGTH = 240
#: Minimum characters of a repeated observation that is replaced by a reference.
REPEATED = 40
#: The maximum share of the budget for the opening, the present observation and the actions each.
PART = 0.25


@dataclass(frozen=True, slots=True)
class StepView:
    """A step: its number from 1, its action, the observation after it ("" for the present one)."""

    number: int
    action: str
    seen: str


@dataclass(frozen=True, slots=True)
class ExampleView:
    """A recalled tuple. so_far: its history in words."""

    goal: str
    so_far: str
    observation: str
    action: str


def course_views(course: Past, observation: str, room: int, goal: str) -> list[StepView]:
    """Return the steps of a course with their observations, in `room` characters.

    A repeated observation is replaced by a reference. Without room, observations are cut, parts
    that the next action refers to last; then the oldest steps are dropped.
    """
    observations = [*(text for text, _ in course), observation]
    steps = [
        StepView(number, shortened(action, ACTION_LENGTH), _named(observations, number))
        for number, (_, action) in enumerate(course, 1)
    ]
    costs = [len(step.action) + 8 for step in steps]
    while steps and sum(costs) > room:
        steps, costs = steps[1:], costs[1:]
    following = [*(action for _, action in course), ""]
    passages = [Passage(step.seen, following[step.number]) for step in steps]
    texts = fitted(passages, room - sum(costs), goal)
    return [replace(step, seen=text) for step, text in zip(steps, texts, strict=True)]


def _named(observations: Sequence[str], number: int) -> str:
    """Return the observation after a step, or a reference to its first occurrence.

    observations: all observations, the opening first and the present one last.
    """
    text = observations[number]
    if number == len(observations) - 1:
        return ""
    first = observations.index(text)
    if first == number or len(text) < REPEATED:
        return text
    return f"the same as after step {first}" if first else "the same as at the start"


def in_words(history: History) -> str:
    """Return a history as text for a model, or "" if no model wrote it.

    The offline reasoner's assessment consists of words of the goal, which tell a model nothing.
    """
    if not history.assessment.startswith(f"{SUB_GOAL} 1: "):
        return ""
    parts = ("Evaluation", history.assessment), ("Summary", history.summary)
    return "\n".join(f"{name}: {text}" for name, text in parts if text)


def example_views(recalls: Sequence[Recall], room: int) -> list[ExampleView]:
    """Return recalled tuples as examples in `room` characters, the nearest last.

    recalls: the nearest first; the farthest are dropped if not all fit.
    """
    sources = [recall.tuple for recall in recalls]
    while sources:
        histories = [in_words(source.history) for source in sources]
        goals = [shortened(source.goal, EXAMPLE_GOAL) for source in sources]
        left = room - sum(
            len(goal) + min(len(s.action), ACTION_LENGTH) + 40
            for s, goal in zip(sources, goals, strict=True)
        )
        lengths = [len(source.observation) for source in sources]
        most = level([*lengths, *map(len, histories)], left)
        if most >= min(LEAST_EXAMPLE, max(lengths)):
            return [
                _example(source, goal, history, most)
                for source, goal, history in zip(sources, goals, histories, strict=True)
            ][::-1]
        sources.pop()
    return []


def _example(source: StateActionTuple, goal: str, history: str, most: int) -> ExampleView:
    return ExampleView(
        goal,
        excerpt(history, most, source.action, source.goal),
        excerpt(source.observation, most, source.action, source.goal),
        shortened(source.action, ACTION_LENGTH),
    )


def with_goal_once(state: State) -> State:
    """Return a state for a prompt that tells the goal: its texts do not tell it again.

    The first observation stands in the same place at every step.
    """

    def bare(text: str) -> str:
        return without_goal(text, state.goal) or text

    return replace(
        state,
        opening=bare(state.opening or state.observation),
        observation=bare(state.latest or state.observation),
        course=tuple((bare(text), action) for text, action in state.course),
    )


def decision_view(card: Card, state: State, recalls: Sequence[Recall], room: int) -> dict[str, Any]:
    """Return the variables of a decision's prompt for a state and recalls, in `room` characters."""
    part, course = int(room * PART), state.course or state.history.past
    goal, opening = shortened(state.goal, part), excerpt(state.opening, part, "", state.goal)
    observation = excerpt(state.observation, part, "", state.goal)
    offered, omitted = _within(card.offered(state.admissible or ()), part)
    so_far = shortened(in_words(state.history) or state.history.summary, part)
    system = len(card.rules) + sum(map(len, card.actions)) + OVERHEAD
    useful = [one for one in state.rules if not one.rpartition("→ ")[2].startswith(card.habits)]
    rules, _ = _within(useful, min(part // 2, RULES_LENGTH))
    fixed = [goal, opening, observation, so_far, *offered, *rules]
    fixed += [state.example, *state.demonstration]
    left = room - system - sum(map(len, fixed)) - 2 * len(offered)
    past = sum(len(text) + len(action) + 10 for text, action in course)
    examples = sum(len(r.tuple.observation) + len(r.tuple.goal) + 200 for r in recalls)
    most = level([past, examples], left)
    taken = min(past, most)
    done = course_views(course, state.observation, taken, state.goal)
    return {
        "goal": goal,
        "opening": opening,
        "observation": observation,
        "so_far": so_far,
        "done": done,
        "rules": rules,
        "recalls": example_views(recalls, left - taken),
        "admissible": offered,
        "omitted": omitted,
        "example": state.example,
        "demonstration": shortened("; ".join(state.demonstration), DEMONSTRATION),
        "steps_left": state.steps_left,
    }


def _within(actions: Sequence[str], room: int) -> tuple[list[str], int]:
    """Return the first actions that fit, and the number of the others."""
    visible: list[str] = []
    for action in actions:
        room -= len(action) + 2
        if room < 0:
            break
        visible.append(action)
    return visible, len(actions) - len(visible)


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process as prompts show it. steps: (number from 1, action, observation after it)."""

    goal: str
    opening: str
    steps: tuple[tuple[int, str, str], ...]

    @classmethod
    def of(cls, process: Process, places: Sequence[int], room: int) -> ProcessView:
        """Return the steps at `places`, within `room` characters."""
        goal = shortened(process.goal, room // 4)
        opening = excerpt(process.opening, room // 4, "", process.goal)
        steps = [process.steps[place] for place in places]
        actions = [shortened(action, ACTION_LENGTH) for action, _ in steps]
        following = [process.steps[p + 1][0] if p + 1 < len(process.steps) else "" for p in places]
        passages = [Passage(text, then) for (_, text), then in zip(steps, following, strict=True)]
        left = room - len(goal) - len(opening) - sum(len(action) + 8 for action in actions)
        texts = fitted(passages, left, process.goal)
        numbered = zip((place + 1 for place in places), actions, texts, strict=True)
        return cls(goal, opening, tuple(numbered))


def past_view(past: Past, room: int, goal: str) -> dict[str, Any]:
    """Return the variables of a question about a past, in `room` characters."""
    goal = shortened(goal, room // 4)
    actions = [shortened(action, ACTION_LENGTH) for _, action in past]
    left = room - OVERHEAD - len(goal) - sum(len(action) + 20 for action in actions)
    texts = fitted([Passage(text, action) for text, action in past], left, goal)
    return {"goal": goal, "past": list(zip(texts, actions, strict=True))}


def own_words(card: Card, offered: Sequence[str]) -> str:
    """Return the offered actions with a free argument, in words."""
    forms = {f"{verb}[{argument}]" for verb, argument in card.free.items()}
    return " and ".join(action for action in offered if action in forms)

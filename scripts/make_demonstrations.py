"""Pick demonstrations from our own recorded episodes and add thoughts; the same bytes every time.

    python scripts/make_demonstrations.py

Reads data/trajectories/, writes ldm/agents/demonstrations/ENV.jsonl and ENV.plans.json. Of each
kind the shortest episodes are taken in which something had to be searched, chosen or crafted first.
The thoughts, by rules, are think steps that say what was found, what is held and what comes next;
the plans, by rules too, say how the task divides into sub-tasks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents.demonstrations import SHIPPED
from ldm.types import Step, Trajectory, stable_hash

ROOT = Path(__file__).resolve().parent.parent
TRAJECTORIES = ROOT / "data" / "trajectories"
#: What a heated, cleaned or cooled thing is.
BECOMES = {"heat": "hot", "clean": "clean", "cool": "cool"}

#: Crafts that would be picked otherwise, but are in ADaPT's published list of tasks.
PUBLISHED = frozenset({"ender_eye"})


def main() -> None:
    """Write the file of every environment."""
    for env, (file, pick, think, divide) in SOURCES.items():
        told = records.read(TRAJECTORIES / env / file, Trajectory)
        found = [_thoughtful(one, think(one)) for one in map(_to_the_point, pick(told))]
        records.write(SHIPPED / f"{env}.jsonl", found)
        plans = {one.task.id: divide(one) for one in found}
        text = json.dumps(plans, indent=1, ensure_ascii=False) + "\n"
        (SHIPPED / f"{env}.plans.json").write_text(text, encoding="utf-8")
        for one in found:
            print(f"{env} {one.task.kind}: {one.task.goal} ({len(one.steps)} steps)")


Thoughts = dict[int, str]


def _to_the_point(told: Trajectory) -> Trajectory:
    """The trajectory without a look at the empty inventory at its start.

    Where it began so, a small model looked there again and again, and then gave up.
    """
    steps = told.steps[1:] if told.steps[0].action == "inventory" else told.steps
    return replace(told, steps=steps)


def _thoughtful(told: Trajectory, thoughts: Thoughts) -> Trajectory:
    """The trajectory with a think step before the steps that `thoughts` names."""
    steps: list[Step] = []
    for number, step in enumerate(told.steps):
        if number in thoughts:
            steps.append(Step("", "", thought=thoughts[number]))
        steps.append(step)
    return Trajectory(told.task, told.opening, tuple(steps), told.score, told.success, told.origin)


def _shortest(
    told: Iterable[Trajectory], count: int, thing: Callable[[Trajectory], str]
) -> list[Trajectory]:
    """The `count` that take the least room in a prompt, with different things."""
    ranked = sorted(told, key=lambda one: (_room(one), stable_hash("shown", one.task.id)))
    found: dict[str, Trajectory] = {}
    for one in ranked:
        found.setdefault(thing(one), one)
    return list(found.values())[:count]


def _room(told: Trajectory) -> int:
    return len(told.opening) + sum(len(s.action) + len(s.observation) + 20 for s in told.steps)


def _alfworld(told: Sequence[Trajectory]) -> Iterator[Trajectory]:
    """Two of each kind in which the first place was a wrong one; in one, a place was opened.

    Where none was, a small model stood before closed places and did not open them.
    """
    for kind in sorted({one.task.kind for one in told}):
        searched = [one for one in told if one.task.kind == kind and _walks(one) >= 2]
        opened = _shortest((one for one in searched if _opens(one)), 1, _taken)
        rest = (one for one in searched if _taken(one) != _taken(opened[0]) and not _opens(one))
        yield from opened
        yield from _shortest(rest, 1, _taken)


def _walks(told: Trajectory) -> int:
    return sum(action.startswith("go to ") for action in _before_taking(told))


def _opens(told: Trajectory) -> bool:
    return any(action.startswith("open ") for action in _before_taking(told))


def _before_taking(told: Trajectory) -> list[str]:
    actions = [step.action for step in told.steps]
    first = next(n for n, action in enumerate(actions) if action.startswith("take "))
    return actions[:first]


def _taken(told: Trajectory) -> str:
    """What the first thing that is taken is called."""
    return told.steps[len(_before_taking(told))].action.split()[1]


def _household(told: Trajectory) -> Thoughts:
    """Thoughts at the start, when the object is found, and when a part of the task is done."""
    actions = [step.action for step in told.steps]
    thoughts: Thoughts = {}
    placed = 0
    for number, action in enumerate(actions):
        rest = actions[number + 1 :]
        if taken := re.fullmatch(r"take (.+) (\d+) from (.+)", action):
            thing = f"{taken[1]} {taken[2]}"
            thoughts.setdefault(0, _start(told, taken[1]))
            thoughts[number] = f"Here is {_a(taken[1])}: {thing}. I take it."
            if rest:
                thoughts[number + 1] = f"I hold {thing}. Next: {_next(rest)}."
        elif changed := re.fullmatch(r"(heat|clean|cool) (.+ \d+) with .+", action):
            state = BECOMES[changed[1]]
            thoughts[number + 1] = f"{changed[2]} is {state} now. Next: {_next(rest)}."
        elif (put := re.fullmatch(r"(?:move|put) (\D+) \d+ (?:to|in/on) .+", action)) and rest:
            placed += 1
            thoughts[number + 1] = f"{placed} of 2 is placed. Next: find another {put[1]}."
    return thoughts


def _tidying(told: Trajectory) -> str:
    """Finding in two kinds of places, as alternatives, then the rest."""
    goal = told.task.goal.rstrip(". ")
    thing, before = _taken(told), _before_taking(told)
    gone = [action.split()[2] for action in before if action.startswith("go to ")]
    places = list(dict.fromkeys(reversed(gone)))[:2][::-1]  # it was found at the last one
    finding = [f"find {_a(thing)} at {_a(place)} and take it" for place in places]
    rest: list[str] = []
    if len(places) == 1:
        finding, rest = [f"find {_a(thing)}"], [f"take the {thing}"]
    for action in [step.action for step in told.steps[len(before) + 1 :]]:
        if changed := re.fullmatch(r"(heat|clean|cool) .+ with (\D+) \d+", action):
            rest.append(f"{changed[1]} the {thing} with {_a(changed[2])}")
        elif put := re.fullmatch(r"(?:move|put) .+ (?:to|in/on) (\D+) \d+", action):
            rest.append(f"put the {thing} at {_a(put[1])}")
        elif action.startswith("take "):
            rest.append(f"find another {thing} and take it")
        elif action.startswith("use "):
            rest.append(f"with the {thing} in hand use the {action.split()[1]}")
    need = ", ".join([f"I have to find {_a(thing)}", *rest])
    thought = f"To {goal}, {need}. It may be at {' or '.join(map(_a, places))}."
    return _plan(thought, finding, rest)


def _plan(thought: str, either: Sequence[str], rest: Sequence[str]) -> str:
    """A plan as ADaPT's planner writes it: one of `either`, then all of `rest`."""
    numbers = [f"Step {number}" for number in range(1, len(either) + len(rest) + 1)]
    lines = [f"{number}: {step}" for number, step in zip(numbers, [*either, *rest], strict=True)]
    ways, after = numbers[: len(either)], numbers[len(either) :]
    first = f"({' OR '.join(ways)})" if len(ways) > 1 else ways[0]
    order = f"Execution Order: {' AND '.join([first, *after])}"
    return "\n".join([f"Think: {thought}", *lines, order])


def _start(told: Trajectory, thing: str) -> str:
    return (
        f"The task is to {told.task.goal.rstrip('. ')}. First: find {_a(thing)}. "
        "I look at the places where it may be, one by one."
    )


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _next(actions: Sequence[str]) -> str:
    """The next thing to do that is more than walking and opening."""
    wanted = (a for a in actions if not a.startswith(("go to ", "open ", "close ")))
    return re.sub(r"^(move|put) (.+) (to|in/on) (.+)$", r"bring \2 to \4", next(wanted))


def _webshop(told: Sequence[Trajectory]) -> list[Trajectory]:
    """One with the full reward in which an option was chosen."""
    good = [
        one
        for one in told
        if one.success
        and one.steps[0].action.startswith("search[")
        and any(step.observation.startswith("You have clicked") for step in one.steps)
    ]
    return _shortest(good, 1, lambda one: one.task.goal)


def _shopping(told: Trajectory) -> Thoughts:
    """Thoughts before the search, the product, the first option and the purchase."""
    thoughts: Thoughts = {
        0: "I search for the kind of product with the attributes asked for, without the price."
    }
    seen, options = told.opening, False
    for number, step in enumerate(told.steps):
        pressed = re.fullmatch(r"click\[(.+)\]", step.action)
        if pressed and re.fullmatch(r"[A-Z0-9]{10}", pressed[1]):
            title, price = _listed(seen, pressed[1])
            thoughts[number] = f"{pressed[1]} is what is asked for: {title}, {price}. I open it."
        elif step.observation.startswith("You have clicked") and not options:
            options = True
            values = [
                s.action[6:-1] for s in told.steps if s.observation.startswith("You have clicked")
            ]
            thoughts[number] = f"Price and title fit. I choose what is asked for: {_and(values)}."
        elif step.action == "click[Buy Now]":
            thoughts[number] = "All that was asked for is chosen. I buy it."
        seen = step.observation or seen
    return thoughts


def _listed(page: str, code: str) -> tuple[str, str]:
    lines = [line.strip() for line in page.splitlines()]
    at = lines.index(f"[{code}]")
    return lines[at + 1], lines[at + 2]


def _and(values: Sequence[str]) -> str:
    return " and ".join(values)


def _buying(told: Trajectory) -> str:
    """Search, look, compare, buy: the skills of the shop, in the words of the instruction."""
    actions = [step.action for step in told.steps if step.action]
    chosen = [s.action[6:-1] for s in told.steps if s.observation.startswith("You have clicked")]
    wanted = told.task.goal.removeprefix("Show me ").rstrip(".")
    steps = [
        f"find products with the words: {actions[0][7:-1]}",
        f"shortlist products of the results that may be {wanted}",
        "open the first product of the shortlist",
        f"match the product with what is asked for: {wanted}",
        f"choose {_and(chosen)}, and buy the product",
    ]
    thought = "The product has to be found, compared with what is asked for, and bought as asked."
    return _plan(thought, steps[:1], steps[1:])


def _textcraft(told: Sequence[Trajectory]) -> Iterator[Trajectory]:
    """Two crafts of depth 2 for which several things are fetched; for one, two must be crafted.

    All deeper ones are in ADaPT's published list of tasks, which is evaluated.
    """
    free = [one for one in told if one.task.kind == "depth2" and one.task.source not in PUBLISHED]
    fetching = [one for one in free if _count(one, "get ") >= 2]
    yield from _shortest(fetching, 1, lambda one: one.task.goal)
    yield from _shortest(
        (one for one in fetching if _count(one, "craft ") >= 3), 1, lambda one: one.task.goal
    )


def _count(told: Trajectory, verb: str) -> int:
    """How many different actions begin with `verb`."""
    return len({step.action for step in told.steps if step.action.startswith(verb)})


def _crafting(told: Trajectory) -> Thoughts:
    """Thoughts at the start, when all is fetched, and after each thing that was crafted.

    The first one begins with the goal: where it began otherwise, a small model copied a later one.
    """
    actions = [step.action for step in told.steps]
    made = [
        (number, made[1], made[2])
        for number, action in enumerate(actions)
        if (made := re.fullmatch(r"craft \d+ (.+?) using (.+)", action))
    ]
    needs = [
        f"To craft {item}, I need {parts}." for _, item, parts in dict.fromkeys(reversed(made))
    ]
    fetched = [re.sub(r"^get \d+ ", "", a) for a in actions if a.startswith("get ")]
    thoughts = {0: f"{' '.join(needs)} {_and(fetched).capitalize()} must be fetched first."}
    last = 0
    for number, item, _ in made:
        new = [re.sub(" using .*|(craft|get) ", "", a) for a in actions[last:number]]
        thoughts[number] = f"I have {_and([a for a in new if a[0].isdigit()])}. Next: craft {item}."
        last = number
    return thoughts


def _recipe(told: Trajectory) -> str:
    """What is fetched and crafted, in order, behind the thought that works it out."""
    actions = [s.action for s in told.steps if s.action and s.action != "inventory"]
    return _plan(told.steps[0].thought, actions[:1], actions[1:])


Pick = Callable[[Sequence[Trajectory]], "Iterator[Trajectory] | list[Trajectory]"]
Think = Callable[[Trajectory], Thoughts]
Divide = Callable[[Trajectory], str]
SOURCES: dict[str, tuple[str, Pick, Think, Divide]] = {
    "alfworld": ("demo_train.jsonl", _alfworld, _household, _tidying),
    "textcraft": ("train.jsonl.gz", _textcraft, _crafting, _recipe),
    "webshop": ("demo_train.jsonl.gz", _webshop, _shopping, _buying),
}


if __name__ == "__main__":
    main()

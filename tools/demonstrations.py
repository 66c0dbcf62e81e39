"""Demonstrations of whole tasks for prompts, picked from our own recorded episodes, with thoughts.

Of each kind the shortest episodes are picked in which something had to be searched, chosen or
crafted first. The thoughts are think steps, made by rules, that say what was seen, what is held and
what comes next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ldm.types import Step, Trajectory, stable_hash
from tools.hotpotqa import demonstrations as hotpotqa
from tools.webshop import second_search

#: What a heated, cleaned or cooled thing is.
BECOMES = {"heat": "hot", "clean": "clean", "cool": "cool"}
#: Crafts that would be picked otherwise, but are in ADaPT's published list of tasks.
PUBLISHED = frozenset({"ender_eye"})

#: Number of a step → the thought before it.
Thoughts = dict[int, str]


def _without_first_look(episode: Trajectory) -> Trajectory:
    """Return the episode without a look at the empty inventory at its start.

    Where it began so, a small model looked there again and again, and then gave up.
    """
    steps = episode.steps[1:] if episode.steps[0].action == "inventory" else episode.steps
    return replace(episode, steps=steps)


def _with_thoughts(episode: Trajectory, thoughts: Thoughts) -> Trajectory:
    """Return the episode with a think step before the steps that `thoughts` names."""
    steps: list[Step] = []
    for number, step in enumerate(episode.steps):
        if number in thoughts:
            steps.append(Step("", "", thought=thoughts[number]))
        steps.append(step)
    return Trajectory(
        episode.task, episode.opening, tuple(steps), episode.score, episode.success, episode.origin
    )


def _shortest(
    episodes: Iterable[Trajectory], count: int, thing: Callable[[Trajectory], str]
) -> list[Trajectory]:
    """Return the `count` that take the least room in a prompt, with different things."""
    ranked = sorted(
        episodes, key=lambda episode: (_room(episode), stable_hash("shown", episode.task.id))
    )
    by_thing: dict[str, Trajectory] = {}
    for episode in ranked:
        by_thing.setdefault(thing(episode), episode)
    return list(by_thing.values())[:count]


def _room(episode: Trajectory) -> int:
    return len(episode.opening) + sum(
        len(s.action) + len(s.observation) + 20 for s in episode.steps
    )


def _pick_alfworld(episodes: Sequence[Trajectory]) -> Iterator[Trajectory]:
    """Yield two of each kind whose object was not at the first place.

    For one a closed place was opened to look into it, for the other to put something in, where
    there is such an episode. Where there was none, a small model stood before closed places and did
    not open them.
    """
    for kind in sorted({episode.task.kind for episode in episodes}):
        searched = [
            episode for episode in episodes if episode.task.kind == kind and _walks(episode) >= 2
        ]
        opened = _shortest((episode for episode in searched if _opens(episode)), 1, _taken)
        rest = (
            episode
            for episode in searched
            if _taken(episode) != _taken(opened[0]) and not _opens(episode)
        )
        yield from opened
        others = list(rest)
        yield from _shortest([one for one in others if _opens_to_put(one)] or others, 1, _taken)


def _walks(episode: Trajectory) -> int:
    return sum(action.startswith("go to ") for action in _before_taking(episode))


def _opens(episode: Trajectory) -> bool:
    return any(action.startswith("open ") for action in _before_taking(episode))


def _opens_to_put(episode: Trajectory) -> bool:
    actions = [step.action for step in episode.steps]
    return any(
        before.startswith("open ") and then.startswith(("put ", "move "))
        for before, then in pairwise(actions)
    )


def _before_taking(episode: Trajectory) -> list[str]:
    actions = [step.action for step in episode.steps]
    first = next(n for n, action in enumerate(actions) if action.startswith("take "))
    return actions[:first]


def _taken(episode: Trajectory) -> str:
    """Return the name of the first thing that is taken."""
    return episode.steps[len(_before_taking(episode))].action.split()[1]


def _think_alfworld(episode: Trajectory) -> Thoughts:
    """Return thoughts at the start, when the object is seen, and when a part is done."""
    actions = [step.action for step in episode.steps]
    thoughts: Thoughts = {}
    placed_count = 0
    for number, action in enumerate(actions):
        rest = actions[number + 1 :]
        if take_match := re.fullmatch(r"take (.+) (\d+) from (.+)", action):
            thing = f"{take_match[1]} {take_match[2]}"
            thoughts.setdefault(0, _start(episode, take_match[1]))
            thoughts[number] = f"Here is {_a(take_match[1])}: {thing}. I take it."
            if rest:
                thoughts[number + 1] = f"I hold {thing}. Next: {_next(rest)}."
        elif change_match := re.fullmatch(r"(heat|clean|cool) (.+ \d+) with .+", action):
            state = BECOMES[change_match[1]]
            thoughts[number + 1] = f"{change_match[2]} is {state} now. Next: {_next(rest)}."
        elif (
            put_match := re.fullmatch(r"(?:move|put) (\D+) \d+ (?:to|in/on) .+", action)
        ) and rest:
            placed_count += 1
            thoughts[number + 1] = (
                f"{placed_count} of 2 is placed. Next: find another {put_match[1]}."
            )
    return thoughts


def _start(episode: Trajectory, thing: str) -> str:
    return (
        f"The task is to {episode.task.goal.rstrip('. ')}. First: find {_a(thing)}. "
        "I look at the places where it may be, one by one."
    )


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _next(actions: Sequence[str]) -> str:
    """Return the next action that is more than walking and opening, in words."""
    next_actions = (a for a in actions if not a.startswith(("go to ", "open ", "close ")))
    return re.sub(r"^(move|put) (.+) (to|in/on) (.+)$", r"bring \2 to \4", next(next_actions))


def _pick_webshop(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return one with the full reward in which an option was chosen, and a harder one.

    In the latter the first page is of no use, and what is asked for stands among the features.
    """
    candidates = [
        episode
        for episode in episodes
        if episode.success and episode.steps[0].action.startswith("search[") and _options(episode)
    ]
    return [*_shortest(candidates, 1, lambda episode: episode.task.goal), second_search.play()]


def _think_webshop(episode: Trajectory) -> Thoughts:
    """Return thoughts before a search, the product, its features, the options and the purchase."""
    thoughts: Thoughts = {
        0: "I search for the kind of product with the attributes asked for, without the price."
    }
    attributes, thing = second_search.attributes(episode.task.goal)
    title, open_questions = "", attributes
    page, option_chosen, checked = episode.opening, False, "title"
    for number, step in enumerate(episode.steps):
        click_match = re.fullmatch(r"click\[(.+)\]", step.action)
        if click_match and re.fullmatch(r"[A-Z0-9]{10}", click_match[1]):
            title, price = _listed(page, click_match[1])
            says = f"{click_match[1]} is what is asked for: {title}, {price}."
            if "click[Features]" in [one.action for one in episode.steps]:
                says = f"{click_match[1]} may be what is asked for: {title}, {price}."
            thoughts[number] = f"{says} I open it."
        elif step.action == "click[Back to Search]":
            thoughts[0] = f"I search for what it should be: {_and(attributes)}."
            thoughts[number] = (
                f"This page shows no {thing}. I search again, with the kind of product."
            )
        elif step.action == "click[Features]":
            checked = "features"
            open_questions = [one for one in attributes if not second_search.names(title, one)]
            thoughts[number] = (
                f"The price fits. The title does not say {_and(open_questions)}: the features may."
            )
        elif step.action == "click[< Prev]":
            thoughts[number] = (
                f"The features say {_and(open_questions)}. There is no Buy Now on this page: I go "
                "back to the product."
            )
        elif step.observation.startswith("You have clicked") and not option_chosen:
            option_chosen = True
            options = _and(_options(episode))
            thoughts[number] = f"Price and {checked} fit. I choose what is asked for: {options}."
        elif step.action == "click[Buy Now]":
            thoughts[number] = "All that was asked for is chosen. I buy it."
        page = step.observation or page
    return thoughts


def _options(episode: Trajectory) -> list[str]:
    """Return the option values that are clicked."""
    clicks = (step for step in episode.steps if step.observation.startswith("You have clicked"))
    return [step.action[6:-1] for step in clicks]


def _listed(page: str, code: str) -> tuple[str, str]:
    lines = [line.strip() for line in page.splitlines()]
    at = lines.index(f"[{code}]")
    return lines[at + 1], lines[at + 2]


def _and(values: Sequence[str]) -> str:
    return " and ".join(values)


def _pick_textcraft(episodes: Sequence[Trajectory]) -> Iterator[Trajectory]:
    """Yield two crafts of depth 2 that need several fetched items, one of them two crafted ones.

    All deeper ones are in ADaPT's published list of tasks, which is evaluated.
    """
    unpublished = [
        episode
        for episode in episodes
        if episode.task.kind == "depth2" and episode.task.source not in PUBLISHED
    ]
    with_fetching = [episode for episode in unpublished if _count(episode, "get ") >= 2]
    yield from _shortest(with_fetching, 1, lambda episode: episode.task.goal)
    yield from _shortest(
        (episode for episode in with_fetching if _count(episode, "craft ") >= 3),
        1,
        lambda episode: episode.task.goal,
    )


def _count(episode: Trajectory, verb: str) -> int:
    """Return how many different actions begin with `verb`."""
    return len({step.action for step in episode.steps if step.action.startswith(verb)})


def _think_textcraft(episode: Trajectory) -> Thoughts:
    """Return thoughts at the start, when all is fetched, and after each crafted item.

    The first one begins with the goal: where it began otherwise, a small model copied a later one.
    """
    actions = [step.action for step in episode.steps]
    crafts = [
        (number, match[1], match[2])
        for number, action in enumerate(actions)
        if (match := re.fullmatch(r"craft \d+ (.+?) using (.+)", action))
    ]
    needs = [
        f"To craft {item}, I need {parts}." for _, item, parts in dict.fromkeys(reversed(crafts))
    ]
    fetched = [re.sub(r"^get \d+ ", "", a) for a in actions if a.startswith("get ")]
    thoughts = {0: f"{' '.join(needs)} {_and(fetched).capitalize()} must be fetched first."}
    last = 0
    for number, item, _ in crafts:
        obtained = [re.sub(" using .*|(craft|get) ", "", a) for a in actions[last:number]]
        thoughts[number] = (
            f"I have {_and([a for a in obtained if a[0].isdigit()])}. Next: craft {item}."
        )
        last = number
    return thoughts


class Rules(NamedTuple):
    """How demonstrations of one environment are made from recorded episodes.

    file: the episodes, below data/trajectories. pick: the episodes to show.
    think: the thought before each of some steps.
    """

    file: str
    pick: Callable[[Sequence[Trajectory]], Iterable[Trajectory]]
    think: Callable[[Trajectory], Thoughts]


RULES = {
    "alfworld": Rules("alfworld/demo_train.jsonl", _pick_alfworld, _think_alfworld),
    "hotpotqa": Rules("hotpotqa/demo_train.jsonl.gz", hotpotqa.pick, hotpotqa.think),
    "textcraft": Rules("textcraft/train.jsonl.gz", _pick_textcraft, _think_textcraft),
    "webshop": Rules("webshop/demo_train.jsonl.gz", _pick_webshop, _think_webshop),
}


def demonstrations(rules: Rules, episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the demonstrations picked from `episodes`."""
    silent = [_without_first_look(episode) for episode in rules.pick(episodes)]
    return [_with_thoughts(episode, rules.think(episode)) for episode in silent]

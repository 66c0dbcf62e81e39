"""How tasks divide into sub-tasks, as planners are shown it (ADaPT, arXiv 2311.05772, App. A).

Six tasks in one household of our own, which is no game; two in a shop, two of crafting and two
questions, in tasks of our own. Some are sub-tasks, since a planner is also asked for those. The
short plans are ADaPT's, the detailed ones those of a planner whose plan nobody divides further (its
App. B).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ldm.agents.demonstrations import Division, load
from ldm.envs import load_env
from ldm.episode import Environment
from ldm.reason.excerpts import without_goal
from tools.hotpotqa.demonstrations import divide

_HOUSEHOLD = (
    "You are in the middle of a room. Looking quickly around you, you see a bed 1, a cabinet 3, a "
    "cabinet 2, a cabinet 1, a countertop 1, a desk 1, a drawer 2, a drawer 1, a fridge 1, a "
    "garbagecan 1, a microwave 1, a shelf 1, a sidetable 1, and a sinkbasin 1."
)


def plan(thought: str, steps: Sequence[str], order: str = "") -> str:
    """Return a plan as planners are to write it. order: over bare numbers; "" for And over all."""
    numbers = [str(number) for number in range(1, len(steps) + 1)]
    words = (order or " AND ".join(numbers)).replace("(", "( ").replace(")", " )").split()
    named = " ".join(f"Step {word}" if word.isdecimal() else word for word in words)
    lines = [f"Step {number}: {step}" for number, step in zip(numbers, steps, strict=True)]
    logic = named.replace("( ", "(").replace(" )", ")")
    return "\n".join([f"Think: {thought}", *lines, f"Execution Order: {logic}"])


def _household() -> list[Division]:
    """Return five whole tasks of different kinds, and how to find something."""
    divisions = []
    for task, thing, places, do in (
        ("put a book on desk.", "book", ("shelf", "bed", "sidetable"), ["put {} at the desk"]),
        (
            "put a clean plate in cabinet.",
            "plate",
            ("countertop", "sidetable", "fridge"),
            ["clean {} with the sinkbasin", "put {} at a cabinet"],
        ),
        (
            "cool some tomato and put it in countertop.",
            "tomato",
            ("fridge", "sinkbasin", "garbagecan"),
            ["cool {} with the fridge", "put {} at the countertop"],
        ),
        (
            "put a hot mug in cabinet.",
            "mug",
            ("countertop", "sinkbasin", "desk"),
            ["heat {} with the microwave", "put {} at a cabinet"],
        ),
    ):
        rest = [step.format(f"the {thing}") for step in do]
        after = ", then ".join(rest)
        thought = f"I have to find a {thing} and take it, then {after}."
        where = _either(places)
        divisions.append(
            Division(
                task,
                _HOUSEHOLD,
                plan(thought, [f"find a {thing} and take it", *rest]),
                plan(
                    f"{thought} It may be at {where}.",
                    [*_search(thing, places), *rest],
                    f"(1 OR 2 OR 3) AND {' AND '.join(str(4 + n) for n in range(len(rest)))}",
                ),
            )
        )
    thought = "I have to find a pen and take it, and hold it where a desklamp is on."
    pens, lamps = ("desk", "drawer", "shelf"), ("desk", "sidetable")
    light = "with the pen in hand use the desklamp"
    divisions.append(
        Division(
            "look at pen under the desklamp.",
            _HOUSEHOLD,
            plan(thought, ["find a pen and take it", light]),
            plan(
                f"{thought} The pen may be at {_either(pens)}, the desklamp at {_either(lamps)}.",
                [*_search("pen", pens), *(f"{light} at the {place}" for place in lamps)],
                "(1 OR 2 OR 3) AND (4 OR 5)",
            ),
        )
    )
    mugs = ("countertop", "cabinet", "sinkbasin", "desk")
    thought = f"A mug may be at {_either(mugs)}. I look there one after the other."
    sub_task = Division(
        "find a mug and take it",
        _HOUSEHOLD,
        plan(thought, _search("mug", mugs), "1 OR 2 OR 3 OR 4"),
    )
    return [*divisions, sub_task]


def _search(thing: str, places: Sequence[str]) -> list[str]:
    return [f"find a {thing} at a {place} and take it" for place in places]


def _either(places: Sequence[str]) -> str:
    *others, last = (f"a {place}" for place in places)
    return f"{', '.join(others)} or {last}"


def _crafting() -> list[Division]:
    """Return a craft, and how to come by what it is made of, with a recipe that is used twice."""
    env = _environment("textcraft")
    task = next(one for one in env.tasks("train") if one.id == "train/end_stone_brick_stairs")
    opening = without_goal(env.reset(task).observation, task.goal)
    bricks = ["get 8 end stone", *["craft 4 end stone bricks using 4 end stone"] * 2]
    stairs = "craft 4 end stone brick stairs using 6 end stone bricks"
    twice = "One recipe makes 4 of them from 4 end stone. For 6 it is used twice, with 8 end stone."
    thought = "The recipe needs 6 end stone bricks, which must be there before it is used."
    again = plan(f"End stone bricks are crafted. {twice}", bricks)
    return [
        Division(
            task.goal,
            opening,
            plan(thought, ["get 6 end stone bricks", stairs]),
            plan(f"The recipe needs 6 end stone bricks. {twice}", [*bricks, stairs]),
            source=task.leak_key,
        ),
        Division("get 6 end stone bricks", opening, again, again, source=task.leak_key),
    ]


def _shopping() -> list[Division]:
    """Return a purchase, and how to buy from a shortlist: one product after the other."""
    env = _environment("webshop", page_size=3)
    task = next(one for one in env.tasks("demo_train") if one.id == "demo_train/2977")
    page = env.reset(task).observation
    results = env.step("search[dimmable easy assemble floor lamp]").observation
    lamp = "a dimmable floor lamp that is easy to assemble, in matte black, below 80 dollars"
    find = "find dimmable floor lamps that are easy to assemble"
    shortlist = "shortlist floor lamps of the results that may be dimmable, below 80 dollars"
    asked = f"with what is asked for: {lamp}"
    match = f"match the product {asked}"
    choose = "choose matte black, and buy the product"
    buy = f"buy one of the shortlist that matches {lamp}"
    ordinal = [f"open the {which} product of the shortlist" for which in ("first", "second")]
    coded = [f"match {code} {asked}" for code in ("L5C8DC2689", "L334132DA9")]
    thought = "Floor lamps have to be found, the suitable ones listed, and one that fits bought."
    either = "If the first product does not fit, the second may."
    one_by_one = plan(
        f"Each of the shortlist has to be compared. {either}", [*coded, choose], "(1 OR 2) AND 3"
    )
    return [
        Division(
            task.goal,
            without_goal(page, task.goal),
            plan(thought, [find, shortlist, buy]),
            plan(
                f"{thought} {either}",
                [find, shortlist, ordinal[0], match, ordinal[1], match, choose],
                "1 AND 2 AND ((3 AND 4) OR (5 AND 6)) AND 7",
            ),
            source=task.leak_key,
        ),
        Division(buy, results, one_by_one, one_by_one, tried=buy, source=task.leak_key),
    ]


def _questions() -> list[Division]:
    """Return the first question of each kind among the demonstrations."""
    firsts = {one.task.kind: one for one in reversed(load("hotpotqa"))}
    return [
        Division(one.task.goal, one.opening, divide(one), divide(one), source=one.task.leak_key)
        for _, one in sorted(firsts.items())
    ]


def _environment(name: str, **options: Any) -> Environment:
    env_class = load_env(name)
    environment: Environment = env_class(env_class.Options(**options))
    return environment


DIVISIONS = {
    "alfworld": _household,
    "hotpotqa": _questions,
    "textcraft": _crafting,
    "webshop": _shopping,
}

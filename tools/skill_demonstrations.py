"""Demonstrations of atomic skills (ADaPT, arXiv 2311.05772, Table 1), played in our own tasks.

A script says where a skill is shown, what was done before, and what its executor thinks and does;
the environment answers. Each ends with a success or with giving up, which prompts put in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.agents.decomposition.controller import looked
from ldm.agents.replies import ACT, THINK
from ldm.episode import Environment
from ldm.reason.excerpts import without_goal
from ldm.types import Step, Task, TimeStep, Trajectory


@dataclass(frozen=True, slots=True)
class Script:
    """A skill in a task.

    task: id of the task in whose place it is played. skill: of `Card.skills`. goal: the sub-task.
    before: actions that nobody is shown. course: lines with labels, thoughts and actions; one line
    without a label is a judgement. success: whether it is completed. refused: an action of it that
    is not possible.
    """

    task: str
    skill: str
    goal: str
    before: tuple[str, ...]
    course: tuple[str, ...]
    success: bool = True
    refused: str = ""


def played(env: Environment, script: Script, tasks: Sequence[Task]) -> Trajectory:
    """Return what comes of a script; raise ValueError where an action is not possible.

    A sub-task begins as an executor sees it: with the place, or with the page that is open.
    """
    task = next(one for one in tasks if one.id == script.task)
    now = env.reset(task)
    opening = without_goal(now.observation, task.goal)
    for action in script.before:
        now = _done(env, script, action)
    if env.card.handover == "page":
        opening = now.observation
    if script.skill in env.card.judged:
        opening, _ = looked(env.step, env.card, script.goal, now)
    steps = []
    for line in script.course:
        if not line.startswith(ACT):
            steps.append(Step("", "", thought=line.removeprefix(THINK).strip()))
            continue
        action = line.removeprefix(ACT).strip()
        now = _done(env, script, action)
        # What follows the end of a task is left out of every record, since it may tell the reward.
        steps.append(Step(action, "" if now.done else now.observation, valid=now.valid))
    skill_task = replace(task, goal=script.goal, kind=script.skill, source=task.leak_key)
    skill_task = replace(skill_task, id=f"{task.id}/{script.skill}")
    score = float(script.success)
    return Trajectory(skill_task, opening, tuple(steps), score, script.success, "expert")


def _done(env: Environment, script: Script, action: str) -> TimeStep:
    answer = env.step(action)
    if answer.valid == (action == script.refused):
        raise ValueError(f"{script.goal}: {action!r} is answered {answer.observation!r}")
    return answer


_KITCHEN = "demo_train/pick_cool_then_place_in_recep-Lettuce-None-GarbageCan-101/trial_1"
_BEDROOM = "demo_train/look_at_obj_in_light-KeyChain-None-DeskLamp-104/trial_1"
#: None of its items is in ADaPT's published list of tasks.
_WALL = "train/prismarine_wall"
_LAMP = "demo_train/2977"
_LAMPS = "search[dimmable easy assemble floor lamp]"
_LAMP_PAGE = (_LAMPS, "click[L5C8DC2689]")

ALFWORLD = (
    Script(
        _KITCHEN,
        "take",
        "take a mug from cabinet 3",
        (),
        (
            "Think: My hands are empty, so I can take it. I go to cabinet 3.",
            "Act: go to cabinet 3",
            "Act: open cabinet 3",
            "Think: There is mug 1.",
            "Act: take mug 1 from cabinet 3",
            "Think: I hold mug 1, which is what was asked for.",
        ),
    ),
    Script(
        _KITCHEN,
        "take",
        "take a mug from cabinet 6",
        (),
        (
            "Think: My hands are empty, so I can take it. I go to cabinet 6.",
            "Act: go to cabinet 6",
            "Act: open cabinet 6",
            "Think: cabinet 6 is empty, and no other place was named.",
        ),
        success=False,
    ),
    Script(
        _KITCHEN,
        "put",
        "put the bowl at cabinet 5",
        ("go to cabinet 1", "open cabinet 1", "take bowl 1 from cabinet 1"),
        (
            "Think: I can only put away what I hold. I check.",
            "Act: inventory",
            "Think: I hold bowl 1. I bring it to cabinet 5.",
            "Act: go to cabinet 5",
            "Act: open cabinet 5",
            "Act: move bowl 1 to cabinet 5",
            "Think: bowl 1 is in cabinet 5 now.",
        ),
    ),
    Script(
        _KITCHEN,
        "clean",
        "clean the tomato",
        ("go to countertop 1", "take tomato 1 from countertop 1"),
        (
            "Think: I can only clean what I hold. I check.",
            "Act: inventory",
            "Think: I hold tomato 1. It is cleaned at a sinkbasin.",
            "Act: go to sinkbasin 1",
            "Act: clean tomato 1 with sinkbasin 1",
            "Think: tomato 1 is clean now.",
        ),
    ),
    Script(
        _KITCHEN,
        "heat",
        "heat the egg",
        ("go to countertop 1", "take egg 1 from countertop 1"),
        (
            "Think: I can only heat what I hold. I check.",
            "Act: inventory",
            "Think: I hold egg 1. It is heated at a microwave, which can stay closed.",
            "Act: go to microwave 1",
            "Act: heat egg 1 with microwave 1",
            "Think: egg 1 is hot now.",
        ),
    ),
    Script(
        _KITCHEN,
        "cool",
        "cool the mug",
        ("go to cabinet 1", "open cabinet 1", "take mug 2 from cabinet 1"),
        (
            "Think: I can only cool what I hold. I check.",
            "Act: inventory",
            "Think: I hold mug 2. It is cooled at a fridge, which can stay closed.",
            "Act: go to fridge 1",
            "Act: cool mug 2 with fridge 1",
            "Think: mug 2 is cool now.",
        ),
    ),
    Script(
        _BEDROOM,
        "light",
        "with the pencil in hand use the desklamp",
        ("go to shelf 2", "take pencil 1 from shelf 2"),
        (
            "Think: I have to hold the pencil while the lamp is on. I check.",
            "Act: inventory",
            "Think: I hold pencil 1. A desklamp may stand on the desk.",
            "Act: go to desk 1",
            "Think: There is desklamp 1.",
            "Act: use desklamp 1",
            "Think: desklamp 1 is on, and I hold pencil 1.",
        ),
    ),
)

TEXTCRAFT = (
    Script(
        _WALL,
        "get",
        "get 8 prismarine shard",
        (),
        (
            "Think: No recipe makes prismarine shard, so it can be fetched.",
            "Act: get 8 prismarine shard",
            "Think: I have 8 prismarine shard now.",
        ),
    ),
    Script(
        _WALL,
        "get",
        "get 1 prismarine",
        (),
        (
            "Act: get 1 prismarine",
            "Think: prismarine cannot be fetched, so I have to craft it. The recipe needs 4 "
            "prismarine shard.",
            "Act: get 4 prismarine shard",
            "Act: craft 1 prismarine using 4 prismarine shard",
            "Think: I have 1 prismarine now.",
        ),
        refused="get 1 prismarine",
    ),
    Script(
        _WALL,
        "craft",
        "craft 2 prismarine",
        ("get 8 prismarine shard",),
        (
            "Think: The recipe makes 1 prismarine of 4 prismarine shard. For 2 I need 8. I check.",
            "Act: inventory",
            "Think: I have 8 prismarine shard. I use the recipe twice.",
            "Act: craft 1 prismarine using 4 prismarine shard",
            "Act: craft 1 prismarine using 4 prismarine shard",
            "Think: I have crafted 2 prismarine.",
        ),
    ),
    Script(
        _WALL,
        "craft",
        "craft 6 prismarine wall",
        ("get 8 prismarine shard", *["craft 1 prismarine using 4 prismarine shard"] * 2),
        (
            "Think: The recipe needs 6 prismarine. I check.",
            "Act: inventory",
            "Think: I have 2 prismarine only, so the recipe cannot be used.",
        ),
        success=False,
    ),
    Script(
        _WALL,
        "check",
        "check whether there are 2 prismarine",
        ("get 8 prismarine shard", *["craft 1 prismarine using 4 prismarine shard"] * 2),
        ("Act: inventory", "Think: There are 2 prismarine, which is enough."),
    ),
)

WEBSHOP = (
    Script(
        _LAMP,
        "find",
        "find dimmable floor lamps that are easy to assemble",
        (),
        (
            "Think: I am on the search page. I search for the kind of product with its attributes.",
            f"Act: {_LAMPS}",
            "Think: The results list floor lamps with these attributes.",
        ),
    ),
    Script(
        _LAMP,
        "buy",
        "buy L5C8DC2689 in matte black",
        (_LAMPS,),
        (
            "Think: L5C8DC2689 is among the results. I open it.",
            "Act: click[L5C8DC2689]",
            "Think: Matte black is one of the colors. I choose it.",
            "Act: click[matte black]",
            "Think: All that is asked for is chosen. I buy it.",
            "Act: click[Buy Now]",
        ),
    ),
    Script(
        _LAMP,
        "choose",
        "choose purple, and buy the product",
        _LAMP_PAGE,
        (
            "Think: The colors are natural oak, matte black, white ash, espresso and pale birch. "
            "None of them is purple.",
        ),
        success=False,
    ),
    Script(
        _LAMP,
        "shortlist",
        "shortlist floor lamps that are easy to assemble, below 80 dollars",
        (_LAMPS,),
        ("L5C8DC2689, L334132DA9, L75D685512",),
    ),
    Script(
        _LAMP,
        "shortlist",
        "shortlist floor lamps below 50 dollars",
        (_LAMPS,),
        ("None of them costs less than 50 dollars.",),
        success=False,
    ),
    Script(
        _LAMP,
        "match",
        "match L5C8DC2689 with what is asked for: a dimmable floor lamp that is easy to assemble, "
        "in matte black, below 80 dollars",
        (_LAMPS,),
        (
            "By its features it is dimmable and easily assembled; it comes in matte black and "
            "costs 56.49 dollars.",
        ),
    ),
    Script(
        _LAMP,
        "match",
        "match L5C8DC2689 with what is asked for: a floor lamp in matte black, below 50 dollars",
        (_LAMPS,),
        ("It comes in matte black, but costs 56.49 dollars.",),
        success=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Skills:
    """The scripts of an environment. split: of their tasks. make: the environment."""

    split: str
    make: Callable[[], Environment]
    scripts: tuple[Script, ...]

    def demonstrations(self) -> list[Trajectory]:
        """Return what comes of all scripts."""
        env = self.make()
        tasks = env.tasks(self.split)
        trajectories = [played(env, script, tasks) for script in self.scripts]
        env.close()
        return trajectories


def _of(name: str, **options: Any) -> Callable[[], Environment]:
    """Return what makes the environment called `name` with these options."""

    def make() -> Environment:
        from ldm.envs import load_env

        env_class = load_env(name)
        environment: Environment = env_class(env_class.Options(**options))
        return environment

    return make


SKILLS = {
    "alfworld": Skills("demo_train", _of("alfworld"), ALFWORLD),
    "textcraft": Skills("train", _of("textcraft"), TEXTCRAFT),
    "webshop": Skills("demo_train", _of("webshop", page_size=3), WEBSHOP),
}

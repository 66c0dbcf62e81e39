"""Demonstrations of plans in rounds, for planners that describe, explain and plan anew.

The plans and explanations are ours; what is done and described, the agent does and says while it
follows them (DEPS, arXiv 2302.01560, App. G, shows two such dialogues in its own words).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ldm.agents import Resources
from ldm.deps import DepsAgent
from ldm.deps.parser import listing
from ldm.deps.select import NOTE, held
from ldm.deps.styles import DepsOptions
from ldm.envs import load_env
from ldm.episode import Environment, run_episode
from ldm.llm import GREEDY, Completion, Message, Sampling
from ldm.reason.excerpts import without_goal
from ldm.reporting import noted
from ldm.types import Reading, Task, Trajectory, Usage


@dataclass(frozen=True, slots=True)
class Played:
    """A demonstration: its task, and (plan, explanation of why it fails) of each round.

    task: its id, or the beginning of it. actions: sub-task → what its executor does; the executor
    fails where there is nothing left. thoughts: sub-task → the thought of a planner that names it.
    """

    task: str
    rounds: Sequence[tuple[Sequence[str], str]]
    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    thoughts: Mapping[str, str] = field(default_factory=dict)


_TABLE = 'craft({"crafting_table": 1}, {"planks": 4}, null);'
_WOOD = 'mine({"log": 3}, null);'
_PLANKS = 'craft({"planks": 12}, {"log": 3}, null);'
_STICKS = 'craft({"stick": 4}, {"planks": 2}, null);'
_PICKAXE = 'craft({"wooden_pickaxe": 1}, {"planks": 3, "stick": 2}, "crafting_table");'
_NO_PICKAXE = (
    "Mining cobblestone takes the tool wooden_pickaxe, and I hold none. I have to craft a "
    "wooden_pickaxe first."
)
_NO_TABLE = (
    "Crafting wooden_pickaxe takes a crafting_table, and I hold none. I have to craft a "
    "crafting_table from 4 planks first."
)


def _stone(count: int, *last: str, wood: str = _WOOD) -> Played:
    """Return a craft that fails for want of a pickaxe, and then of a crafting table."""
    with_pickaxe = [f'mine({{"cobblestone": {count}}}, "wooden_pickaxe");', *last]
    by_hand = [f'mine({{"cobblestone": {count}}}, null);', *last]
    return Played(
        "",
        [
            ([wood, _PLANKS, _STICKS, *by_hand], _NO_PICKAXE),
            ([_PICKAXE, *with_pickaxe], _NO_TABLE),
            ([_TABLE, _PICKAXE, *with_pickaxe], ""),
        ],
    )


_SMOKER = _stone(
    8,
    'craft({"furnace": 1}, {"cobblestone": 8}, "crafting_table");',
    'craft({"smoker": 1}, {"furnace": 1, "log": 4}, "crafting_table");',
    wood='mine({"log": 7}, null);',
)
_SWORD = _stone(2, 'craft({"stone_sword": 1}, {"cobblestone": 2, "stick": 1}, "crafting_table");')
_LADDER = [
    _WOOD,
    _PLANKS,
    'craft({"stick": 8}, {"planks": 4}, null);',
    _TABLE,
    'craft({"ladder": 3}, {"stick": 7}, "crafting_table");',
]
_BUTTON = [
    'mine({"log": 1}, null);',
    'craft({"planks": 4}, {"log": 1}, null);',
    'craft({"wooden_button": 1}, {"planks": 1}, null);',
]
_CUP = "demo_train/pick_cool_then_place_in_recep-Cup-None-SinkBasin-107/trial_1"
_WATCH = "demo_train/look_at_obj_in_light-Watch-None-DeskLamp-92/trial_1"

#: Name of the file → its demonstrations; what stands before a dot is the environment.
ROUNDS: Mapping[str, Sequence[Played]] = {
    "minecraft": (
        Played("train/ladder", [(_LADDER, "")]),
        replace(_SMOKER, task="train/smoker"),
    ),
    "minecraft.paper": (
        Played("test/wooden_button", [(_BUTTON, "")]),
        replace(_SWORD, task="test/stone_sword"),
    ),
    "alfworld": (
        Played(
            _CUP,
            [
                (
                    [
                        "Step 1: take a cup from cabinet 2",
                        "Step 2: cool the cup with fridge 1",
                        "Step 3: put the cup in sinkbasin 1",
                    ],
                    "Cabinet 2 holds no cup. A cup may be in another cabinet, so I should look "
                    "into cabinet 1 next.",
                ),
                (
                    ["Step 1: take a cup from cabinet 1", "Step 2: put the cup in sinkbasin 1"],
                    "The task asks for a cool cup, and this one was not cooled. I have to take it "
                    "back and cool it with fridge 1 first.",
                ),
                (
                    [
                        "Step 1: take the cup from sinkbasin 1",
                        "Step 2: cool the cup with fridge 1",
                        "Step 3: put the cup in sinkbasin 1",
                    ],
                    "",
                ),
            ],
            {
                "take a cup from cabinet 2": ["go to cabinet 2", "open cabinet 2"],
                "take a cup from cabinet 1": [
                    "go to cabinet 1",
                    "open cabinet 1",
                    "take cup 1 from cabinet 1",
                ],
                "put the cup in sinkbasin 1": ["go to sinkbasin 1", "move cup 1 to sinkbasin 1"],
                "take the cup from sinkbasin 1": ["take cup 1 from sinkbasin 1"],
                "cool the cup with fridge 1": ["go to fridge 1", "cool cup 1 with fridge 1"],
            },
            {
                "take a cup from cabinet 2": "I carry nothing, so I need a cup first. There are "
                "four cabinets. A cup may well be in cabinet 2.",
                "take a cup from cabinet 1": "I still carry nothing. Cabinet 2 holds no cup, so "
                "the next cabinet, cabinet 1, may.",
                "put the cup in sinkbasin 1": "I carry cup 1. The sinkbasin is where it has to be.",
                "take the cup from sinkbasin 1": "The cup is in the sinkbasin, but it has to be "
                "cool, and it was not cooled. So I need it back first.",
                "cool the cup with fridge 1": "I carry cup 1, which is not cool yet. There is a "
                "fridge 1, and a fridge cools things.",
            },
        ),
        Played(
            _WATCH,
            [(["Step 1: take a watch from sidetable 1", "Step 2: use desklamp 1"], "")],
            {
                "take a watch from sidetable 1": [
                    "go to sidetable 1",
                    "take watch 1 from sidetable 1",
                ],
                "use desklamp 1": ["use desklamp 1"],
            },
            {
                "take a watch from sidetable 1": "I carry nothing, so I need a watch first. A "
                "watch may lie on sidetable 1.",
                "use desklamp 1": "I carry watch 1. It has to be under a light that is on: "
                "desklamp 1 stands on the sidetable.",
            },
        ),
    ),
    # One, as in the paper's Prompts 12 and 13, which have no thoughts.
    "tabletop": (
        Played(
            "train/put_block_in_bowl/2",
            [
                (
                    [
                        "Step 1: put the red blocks in a red bowl",
                        "Step 2: put the brown blocks in a brown bowl",
                    ],
                    "",
                )
            ],
        ),
    ),
}  # fmt: skip


class _Script:
    """A model that says what a demonstration shows; `failing` sub-tasks end without success."""

    name = "script"

    def __init__(self, played: Played) -> None:
        self._played = played
        self._plans = iter(played.rounds)
        self._why = ""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        return Completion(self._reply(messages[0].content, messages[-1].content), Usage(1))

    def _reply(self, system: str, question: str) -> str:
        if "You find out why" in system:
            return self._why
        if "You do a task" in system:
            task = re.findall(r"<task>\n(.*?)\n</task>", question, re.DOTALL)[-1]
            actions = self._played.actions[task]
            number = question.rpartition("<so-far>")[2].count("\nAct:")
            if number < len(actions):
                return f"Act: {actions[number]}"
            return f"Act: task {'completed' if self._reached(task) else 'failed'}"
        lines, self._why = next(self._plans)
        return "\n".join(lines)

    def _reached(self, task: str) -> bool:
        return not (task.startswith("take") and self._played.actions[task][-1].startswith("open"))


def played_rounds(name: str) -> tuple[list[Trajectory], dict[str, Any]]:
    """Return the trajectories of a file's demonstrations, and task id → rounds as data."""
    env_class = load_env(name.partition(".")[0])
    env: Environment = env_class(env_class.Options())
    trials: list[Trajectory] = []
    by_task: dict[str, Any] = {}
    for played in ROUNDS[name]:
        script = _Script(played)
        agent = DepsAgent(DepsOptions(method="dep", shots=0), Resources(llm=script, planner=script))
        result, (trial,) = run_episode(env, agent, _task(env, played.task))
        data = noted(result, NOTE)
        if not result.success or data is None:
            raise RuntimeError(f"{played.task} was not solved: {result.error or result.notes}")
        trials.append(replace(trial, origin="expert"))
        scenes = _Scenes(played, trial, env.card.reading)
        by_task[result.task.id] = [
            {**one, **scenes.of(turn)}
            for one, turn in zip(_rounds(data["rounds"]), data["rounds"], strict=True)
        ]
    env.close()
    return trials, by_task


def _rounds(rounds: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in rounds:
        last = one is rounds[-1]
        yield {
            "plan": one["plan"].splitlines(),
            "done": len(one["goals"]) if last else len(one["done"]),
            "description": "All steps are done. The task is done." if last else one["description"],
            "explanation": one["explanation"],
        }


class _Scenes:
    """What there was before each goal of a trial, one round after the other."""

    def __init__(self, played: Played, trial: Trajectory, reading: Reading) -> None:
        acted = [step.observation for step in trial.steps if step.action]
        self._played, self._reading = played, reading
        self._answers = iter([without_goal(trial.opening, trial.task.goal), *acted])

    def of(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scenes and the thoughts of the goals that a round pursued."""
        scenes: dict[str, str] = {}
        for rank, _ in turn["pursued"]:
            words = turn["goals"][rank - 1]["goal"]
            actions = self._played.actions.get(words, ("",))
            answer, *_ = islice(self._answers, len(actions))
            counts = held(answer, self._reading)
            hand = "" if counts is None else f"I hold {listing(counts)}."
            scenes.setdefault(words, hand or " ".join(answer.split()))
        thoughts = [self._played.thoughts[words] for words in scenes if self._played.thoughts]
        return {"scenes": list(scenes.values()), "thoughts": thoughts}


def _task(env: Environment, task_id: str) -> Task:
    """Return a task by its id, or the beginning of it."""
    split = task_id.partition("/")[0]
    known = env.tasks(split)
    return next(task for task in known if f"{task.id}/".startswith(f"{task_id}/"))


def text_of(by_task: Mapping[str, Any]) -> str:
    """Return rounds as the file that lies beside demonstrations."""
    return json.dumps(by_task, indent=1, ensure_ascii=False) + "\n"

"""Options of DEPS and of the planners that the paper compares it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from ldm.agents.executor import TaskOptions
from ldm.deps.parser import MOST_GOALS
from ldm.types import Amount, Count, Positive

Method = Literal["deps", "dep", "gpt", "gpt_rp", "progprompt", "cot", "im", "cap"]
Arm = Literal["none", "random", "similarity", "horizon"]
Form = Literal["code", "steps", "program", "thinking", "policy", "next"]


@dataclass(frozen=True, slots=True)
class Style:
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

    @property
    def new_plans(self) -> int:
        """The maximum number of new plans: 0 if the method does not replan."""
        return self.rounds if self.style.replans else 0

"""Options of DEPS and of the planners that the paper compares it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ldm.agents import demonstrations
from ldm.agents.deps.goals import MOST_GOALS
from ldm.agents.executor import LoopOptions
from ldm.errors import LdmError
from ldm.types import stable_hash

Method = Literal["deps", "dep", "gpt", "gpt_rp", "progprompt", "cot", "im", "cap"]
Arm = Literal["none", "random", "similarity", "horizon", "oracle"]
Form = Literal["code", "steps", "program", "thinking", "policy", "next"]


@dataclass(frozen=True, slots=True)
class Style:
    """What makes a method: the form of its plans, whether it plans anew, and explains before."""

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


def file_digest(path: Path) -> str:
    """Return a digest of a file. Raises LdmError where it cannot be read."""
    try:
        return stable_hash(path.read_bytes().hex())
    except OSError as error:
        raise LdmError(
            f"There is no horizon model at {path}: {error.strerror}.",
            "Train one with `ldm horizon`, or leave the option out.",
        ) from error


def check_horizon(options: DepsOptions) -> None:
    """Raise LdmError where the horizon model is another than when the run began."""
    path, before = options.horizon, options.horizon_digest
    if path is not None and before not in (None, file_digest(Path(path))):
        raise LdmError(
            f"The horizon model in {path} has changed since the run began.",
            "Start a new run, or restore the earlier one.",
        )


@dataclass(frozen=True, slots=True)
class DepsOptions(LoopOptions):
    """method: the planner (§4.1, App. D, G): deps describes, explains, plans and selects; dep is
    without the selector; gpt writes one plan, gpt_rp plans anew from the description; progprompt
    and cap write programs, cot an inventory after each step, im the next goal alone.
    selector: which of the goals that can be pursued now is next (§3.3, §4.3.1): none keeps the
    plan's order, random draws, similarity takes the nearest in meaning to what is seen, horizon the
    smallest predicted time, oracle the smallest true one, which the environment has to tell; None
    for horizon with deps, where there is a model for the environment, and none otherwise.
    select: greedy takes the most probable goal of Eq. 2, sample draws from it.
    horizon: a file with a model that `ldm horizon` trained (§3.3); None for the shipped one.
    horizon_digest: digest of that file when the run began (ours); set by the command line.
    rounds: new plans at most (Table 4, §4.3.2).
    explainer: own asks with a prompt of its own (App. C.3), dialogue within the planner's dialogue
    (§3.2), none leaves the explanation out (App. A.1, GPT+RP).
    parser: rules reads plans without a model, llm asks one for what the rules cannot read (App.
    C.4).
    temperature: sampling temperature of plans and explanations (§4.1 keeps the service's default;
    the authors' code has 0.7 for plans).
    plan, explanation: maximum tokens of each (ours).
    goal_steps: maximum steps of an executor for a goal, where the environment has no controller of
    its own (App. A.1 has a model as the controller, and 50 steps in all).
    max_goals: maximum goals read from a plan, and in total for im (ours).
    budget: steps of a trial; None for the environment's published number (App. A), or 60.
    shots: demonstrations in the planner's prompt (App. C.4).
    strength: as of an executor that does the goals; None for skills (ours).
    admissible: show the actions that are possible to an executor, where the environment lists them
    (App. A.1).
    """

    digests: ClassVar[Mapping[str, tuple[str, Callable[[Path], str]]]] = {
        "demonstrations": ("demonstrations_digest", demonstrations.digest),
        "horizon": ("horizon_digest", file_digest),
    }

    method: Method = "deps"
    selector: Arm | None = None
    select: Literal["greedy", "sample"] = "greedy"
    horizon: str | None = None
    horizon_digest: str | None = None
    rounds: int = 8
    explainer: Literal["own", "dialogue", "none"] = "own"
    parser: Literal["rules", "llm"] = "rules"
    temperature: float = 0.0
    plan: int = 600
    explanation: int = 120
    goal_steps: int = 20
    admissible: bool = True
    max_goals: int = MOST_GOALS

    def __post_init__(self) -> None:
        LoopOptions.__post_init__(self)
        for name in ("plan", "explanation", "goal_steps", "max_goals"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is 1 or more")
        if self.rounds < 0 or self.temperature < 0:
            raise ValueError("rounds and temperature are 0 or more")
        if self.selector not in (None, "none") and self.method in ("im", "cap"):
            raise ValueError(f"{self.method} has no plan to select from: leave selector out")

    @property
    def style(self) -> Style:
        """What makes the method."""
        return STYLES[self.method]

    @property
    def new_plans(self) -> int:
        """New plans at most: none where the method does not plan anew."""
        return self.rounds if self.style.replans else 0

    @property
    def explains(self) -> bool:
        """Whether a failure is explained before a new plan is made."""
        return self.style.explains and self.explainer != "none"

"""AutoPlan (Ouyang & Li, arXiv 2305.15064): follow the plan that was optimised for a kind of task.

No demonstrations. `optimiser` makes the plans; `plans` keeps them; `formaliser` puts what the model
wants to do into the environment's grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from ldm.agents import Resources, replies
from ldm.agents.autoplan import plans
from ldm.agents.autoplan.formaliser import formalise
from ldm.agents.transcript import View, ask, transcript_text
from ldm.episode import NO_ACTION, Episode
from ldm.errors import LdmError
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render
from ldm.types import Card, Step

#: Steps of a trial in the paper's experiments (§4.2).
BUDGET = 35
#: Note of an episode: what the model said at each step, before it was formalised.
SAID = "said"
_STOP = (f"\n{replies.SEEN}",)
_ACT = re.compile(r"\b(?:next |first )?act(?:ion)?(?: \d+)?\s*:", re.IGNORECASE)
_THINK = re.compile(r"^\W*(?:think|thought)\s*:", re.IGNORECASE)
_PLAN_STEP = re.compile(r"^(\W*(?:think|thought)\s*:)?\W*step \d+\s*[:.\-]", re.I | re.M)


@dataclass(frozen=True, slots=True)
class AutoPlanOptions:
    """plans: the folder with the plan files (§3.2.3); without it, and without `plan`, there is no
    plan yet.

    digest: digest of that folder when the run began; set by --plans, so that no run mixes two
    plans. plan: a plan's text, in place of a file. budget: steps of a trial (§4.2). temperature,
    top_p: of the replies; greedy, as the paper evaluates (§4.2). reply: tokens of a reply at most.
    observation: characters of an observation that are shown.
    """

    #: As in `ldm.agents.executor.LoopOptions`.
    digests: ClassVar[Mapping[str, tuple[str, Callable[[Path], str]]]] = {
        "plans": ("digest", plans.digest)
    }

    plans: str | None = None
    digest: str | None = None
    plan: str | None = None
    budget: int = BUDGET
    temperature: float = 0.0
    top_p: float = 1.0
    reply: int = 160
    observation: int = 4000

    def __post_init__(self) -> None:
        if self.reply < 1 or self.observation < 1:
            raise ValueError("reply and observation are 1 or more")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError("temperature is 0 or more, top_p above 0 and at most 1")


class AutoPlanAgent:
    """Thinks about where in the plan it is, says what to do, and does it once it is formalised."""

    name = "autoplan"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ("llm",)
    paper: ClassVar[str] = "AutoPlan, arXiv 2305.15064"
    Options: ClassVar[type[AutoPlanOptions]] = AutoPlanOptions

    def __init__(self, options: AutoPlanOptions, resources: Resources) -> None:
        self.options = options
        self._resources = resources

    @staticmethod
    def sources(options: AutoPlanOptions, env: str) -> Iterable[str]:
        """Return the sources of the tasks that plans were made from: they may not be evaluated.

        Raises LdmError where there are no plans, or others than when the run began.
        """
        if options.plans is None:
            return frozenset()
        if options.digest not in (None, plans.digest(Path(options.plans))):
            raise LdmError(
                f"The plans in {options.plans} have changed since the run began.",
                "Start a new run, or put the former plans back.",
            )
        known = plans.in_folder(Path(options.plans), env)
        return frozenset(source for plan in known for source in plan.sources)

    @staticmethod
    def kinds(options: AutoPlanOptions, env: str) -> frozenset[str] | None:
        """Return the kinds of task that there are plans for; None where no folder is used."""
        if options.plans is None or options.plan is not None:
            return None
        return frozenset(plan.kind for plan in plans.in_folder(Path(options.plans), env))

    def budget(self, card: Card) -> int:
        """Return the steps of a trial, in any environment."""
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        """Start one trial. Raises LdmError where there is no plan for the task's kind."""
        work = _Work(episode, self._resources.model(episode), self.options, self._plan(episode))
        try:
            with episode.trial():
                work.begin()
                while True:
                    work.step()
        finally:
            episode.note(SAID, said=work.intentions, formalised=dict(work.counts), plan=work.plan)

    def _plan(self, episode: Episode) -> str:
        options = self.options
        if options.plan is not None or options.plans is None:
            return options.plan or ""
        path = plans.path_of(Path(options.plans), episode.env_name, episode.kind)
        if not path.is_file():
            raise LdmError(
                f"There is no plan for {episode.kind} at {path}.",
                f"Make one with `ldm autoplan --env {episode.env_name} --kind {episode.kind}`.",
            )
        return plans.read(path).plan


def understood(text: str, verbs: frozenset[str]) -> replies.Reply:
    """Return the thought and the action in a reply; "Step 2: …" within it speaks of the plan.

    Everything before the first "Act:" is the thought.
    """
    text = _PLAN_STEP.sub("", text)
    label = _ACT.search(text)
    if label is None:
        return replies.read(text, verbs)
    thought = replies.read(f"{replies.THINK} {_THINK.sub('', text[: label.start()])}", verbs)
    action = replies.read(f"{replies.ACT}{text[label.end() :]}", verbs)
    return replace(action, thought=thought.thought or action.thought)


@dataclass
class _Work:
    """The state of a trial: what was done, what was to be done, how much the prompt shows."""

    episode: Episode
    llm: LLM
    options: AutoPlanOptions
    plan: str
    intentions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        # The last page with names on it, for the formaliser: a refusal has none.
        self.page = self.opening = self.episode.now.observation
        self.view = View(0, self.options.observation)
        self.verbs = replies.verbs_of(self.episode.card)

    def step(self) -> None:
        """Ask for a thought and an action, and do that. A thought alone takes a step, too.

        Raises EpisodeOver when the trial ends, and what a model call raises.
        """
        options, episode = self.options, self.episode
        completion, self.view = ask(
            self.llm,
            self._prompt,
            self.view,
            len(self.steps),
            sampling=Sampling(options.temperature, options.top_p),
            max_tokens=options.reply,
            stop=_STOP,
        )
        reply = understood(completion.text, self.verbs)
        self.intentions.append(reply.action)
        if reply.thought and not reply.action:
            self.steps.append(Step("", "", thought=reply.thought))
            episode.think(reply.thought)
            return
        now = episode.now
        formal = formalise(reply.action, episode.card, now.admissible, self.page, self.llm)
        self.counts[formal.how] += 1
        action = formal.action or NO_ACTION
        answer = episode.act(action, thought=reply.thought)
        self.steps.append(
            Step(action, answer.observation, thought=reply.thought, valid=answer.valid)
        )
        if answer.valid:
            self.page = answer.observation

    def _prompt(self, view: View) -> list[Message]:
        transcript = transcript_text(
            self.opening, self.steps, width=view.width, skipped=view.skipped
        )
        return render(
            "agents/autoplan/act",
            card=self.episode.card,
            plan=self.plan,
            task=self.episode.goal,
            transcript=transcript,
        )

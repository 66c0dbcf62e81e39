"""AutoPlan (Ouyang & Li, arXiv 2305.15064): follow the plan that was optimised for a kind of task.

It needs no demonstrations. `optimiser` makes the plans, `plans` stores them, and
`replies.formalise` translates the model's intentions into the environment's grammar.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from ldm.agents import replies
from ldm.agents.autoplan import plans
from ldm.agents.loop import STOP, Loop, LoopAgent, LoopOptions, View, Work
from ldm.agents.replies import Reply, formalise
from ldm.episode import NO_ACTION, Digests, Episode
from ldm.errors import LdmError
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render
from ldm.types import Amount, Count, Mass, Positive, Step

#: Note of an episode: the model's words at each step, before they were formalised.
SAID = "said"
#: A thought ends when the model continues with the action.
_THOUGHT_STOP = (*STOP, f"\n{replies.ACT}")
_ACT = re.compile(r"\b(?:next |first )?act(?:ion)?(?: \d+)?\s*:", re.IGNORECASE)
_THINK = re.compile(r"^\W*(?:think|thought)\s*:", re.IGNORECASE)
_PLAN_STEP = re.compile(r"^(\W*(?:think|thought)\s*:)?\W*(step \d+)\s*[:.\-]", re.I | re.M)


@dataclass(frozen=True, slots=True)
class AutoPlanOptions(LoopOptions):
    """Options of an agent that follows a plan.

    Without plans it follows none. Iteration i follows the plan X_i with which that iteration of the
    optimisation began (§4.5, Fig. 3); X_0 is empty. The default is X_I, as in inference (§3.2.3).
    As in the paper, the card is bare (§3.1), no action is listed, thought and action are two calls
    (§3.2.1) and replies are greedy (§4.2).
    """

    plans: Annotated[str | None, "Folder with the plan files"] = None
    digest: Annotated[str | None, "Digest of that folder; set by ldm"] = None
    iteration: Annotated[Count | None, "Follow the plan of this iteration; none: the last"] = None
    plan: Annotated[str | None, "A plan's text, in place of the folder"] = None
    temperature: Annotated[Amount, "Sampling temperature of all replies"] = 0.0
    top_p: Annotated[Mass, "Probability mass of nucleus sampling"] = 1.0
    reply: Annotated[Positive, "Maximum tokens of a reply"] = 160


class AutoPlanAgent(LoopAgent):
    """Thinks about where in the plan it is, says what to do, and does it once it is formalised."""

    name = "autoplan"
    paper = "AutoPlan, arXiv 2305.15064"
    Options = AutoPlanOptions
    options: AutoPlanOptions
    default_budget = 35
    sees_actions = False
    digests: ClassVar[Digests] = {"plans": ("digest", plans.digest)}
    source_noun = "plans"
    source_remedy = "name other plans with --plans FOLDER"

    @classmethod
    def sources(cls, options: AutoPlanOptions, env: str) -> Collection[str]:
        """Return the sources of the tasks that plans were made from, which must not be evaluated.

        Raise LdmError if there are no plans, or none of the iteration to follow.
        """
        if options.plans is None:
            return frozenset()
        _followed(options, env)
        known = plans.in_folder(Path(options.plans), env)
        return frozenset(source for plan in known for source in plan.sources)

    @classmethod
    def notice(cls, options: AutoPlanOptions) -> str:
        """Return a notice if no plan is named."""
        if options.plans is not None or options.plan is not None:
            return ""
        return (
            "autoplan starts with an empty plan, because none is named. Make plans with "
            "`ldm autoplan`, and name their folder with --plans."
        )

    @classmethod
    def check_kinds(cls, options: AutoPlanOptions, env: str, kinds: Collection[str]) -> None:
        """Raise LdmError if the folder has no plan for one of these kinds of task."""
        if options.plans is None or options.plan is not None:
            return
        known = {plan.kind for plan in _followed(options, env)}
        lacking = sorted({*kinds} - known)
        if lacking and plans.ALL not in known:
            raise LdmError(
                f"There is no plan for {', '.join(lacking)} in {options.plans}.",
                f"Evaluate the others, --kinds {','.join(sorted(known))}, or make one with "
                f"`ldm autoplan --env {env} --kind {lacking[0]}`.",
            )

    def solve(self, episode: Episode) -> None:
        """Play one trial. Raise LdmError if there is no plan for the task's kind."""
        plan, llm = self._plan(episode), self._resources.model(episode)
        with episode.trial():
            _Following(episode, llm, self.options, plan).run()

    def _plan(self, episode: Episode) -> str:
        options = self.options
        if options.plan is not None or options.plans is None:
            return options.plan or ""
        path = plans.find(Path(options.plans), episode.env_name, episode.kind)
        return plans.read(path).at(options.iteration)


def _followed(options: AutoPlanOptions, env: str) -> list[plans.PlanFile]:
    """Return the plans of the folder that hold the iteration to follow.

    Raise LdmError, which lists the known iterations, if there is none.
    """
    known = plans.in_folder(Path(options.plans or ""), env)
    number = options.iteration
    fitting = [plan for plan in known if number is None or number in plan.numbered()]
    if not fitting:
        known[0].at(number)
    return fitting


def understood(text: str, verbs: frozenset[str]) -> replies.Reply:
    """Return the thought and the action in a reply: all before the first "Act:" is the thought.

    "Step 2: …" refers to the plan and labels no action.
    """
    label = _ACT.search(text)
    if label is None:
        return replies.read(_PLAN_STEP.sub("", text), verbs)
    action = replies.read(f"{replies.ACT}{_PLAN_STEP.sub('', text[label.end() :])}", verbs)
    return replace(action, thought=thought_in(text, verbs) or action.thought)


def thought_in(text: str, verbs: frozenset[str]) -> str:
    """Return the thought in a reply: all before the first "Act:"."""
    label = _ACT.search(text)
    before = text if label is None else text[: label.start()]
    # "Step 2: …" would be taken for the label of an action.
    before = _THINK.sub("", _PLAN_STEP.sub(r"\1 \2,", before)).strip()
    return replies.read(f"{replies.THINK} {before}", verbs).thought


class _Following(Loop):
    """A loop that follows a plan: it asks for a thought, then for an action (§3.2.1, Eq. 2 to 5).

    intentions: the model's intention at each step, before it was formalised.
    """

    joined = True

    def __init__(self, episode: Episode, llm: LLM, options: AutoPlanOptions, plan: str) -> None:
        sampling = Sampling(options.temperature, options.top_p)
        work = Work(episode.goal, sampling=sampling, card=episode.card.bare())
        super().__init__(episode, llm, work, options)
        self.plan = plan
        self.intentions: list[str] = []
        self._ask_for("thought")

    def prompt(self, view: View) -> list[Message]:
        steps = [*self.steps, Step("", "", thought=self.thought)] if self.thought else self.steps
        return render(
            "agents/autoplan/act",
            card=self.card,
            plan=self.plan,
            task=self.work.task,
            transcript=view.transcript(self.opening, steps),
            asked=self.form,
        )

    def read(self, text: str) -> Reply:
        """Return the thought and the formalised action; `text` is the first reply."""
        thought = thought_in(text, self.verbs)
        self._ask_for("action", thought)
        reply = understood(self.ask(), self.verbs)
        intention = reply.action or reply.thought
        self._ask_for("thought")
        self.intentions.append(intention)
        action, how = formalise(intention, self.card, self._page(), self.llm, self.work.sampling)
        self.counts[how] += 1
        return Reply(thought, action or NO_ACTION)

    def note(self) -> None:
        self.episode.note(SAID, said=self.intentions, formalised=dict(self.counts), plan=self.plan)

    def _ask_for(self, form: Literal["thought", "action"], thought: str = "") -> None:
        """Set the form of reply that the next prompt asks for, given a thought."""
        self.form, self.thought = form, thought
        self.stop = _THOUGHT_STOP if form == "thought" else STOP

    def _page(self) -> str:
        """Return the last observation for the formaliser that names things: a refusal does not."""
        pages = (step.observation for step in reversed(self.steps) if step.action and step.valid)
        return next(pages, self.opening)

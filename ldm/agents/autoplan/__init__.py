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
from typing import ClassVar, Literal

from ldm.agents import Resources, replies
from ldm.agents.autoplan import plans
from ldm.agents.formaliser import formalise
from ldm.agents.transcript import View, ask, transcript_text
from ldm.episode import NO_ACTION, Episode
from ldm.errors import LdmError
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render
from ldm.types import Card, Step

#: Steps of a trial where the environment's card has no published number.
BUDGET = 35
#: Note of an episode: what the model said at each step, before it was formalised.
SAID = "said"
_STOP = (f"\n{replies.SEEN}",)
#: A thought ends where the model goes on with the action.
_THOUGHT_STOP = (*_STOP, f"\n{replies.ACT}")
_ACT = re.compile(r"\b(?:next |first )?act(?:ion)?(?: \d+)?\s*:", re.IGNORECASE)
_THINK = re.compile(r"^\W*(?:think|thought)\s*:", re.IGNORECASE)
_PLAN_STEP = re.compile(r"^(\W*(?:think|thought)\s*:)?\W*(step \d+)\s*[:.\-]", re.I | re.M)

#: "bare" tells what the world is and the forms of actions, "full" also the world's rules.
CardChoice = Literal["bare", "full"]
#: What a prompt asks for.
_Asked = Literal["thought", "action", "both"]


@dataclass(frozen=True, slots=True)
class AutoPlanOptions:
    """Settings of an agent that follows a plan, with the section of the paper that each is from.

    plans: the folder with the plan files (§3.2.3); without it, and without `plan`, there is no plan
    yet. digest: digest of that folder when the run began (ours); set by --plans, so that no run
    mixes two.
    iteration: follow the plan X_i that this iteration of the optimisation began with, 0 being none
    (§4.5, Fig. 3); None for the last, X_I, as in inference (§3.2.3).
    plan: a plan's text, in place of a file (ours).
    budget: steps of a trial; None for the number that was published for the environment, or 35
    (§4.2).
    card: "bare" shows the description of the world and the forms of actions (§3.1), so that the
    world's rules have to be discovered; "full" shows those, too, which is our variant.
    admissible: show the actions that are possible, where the environment lists them, and formalise
    with them; the paper shows none (§3.1).
    joined: ask for thought and action in one call, which is our variant; the paper has a call for
    each (§3.2.1, Eq. 2 and 3).
    temperature, top_p: sampling of all replies, the formaliser's included; greedy, as the paper
    evaluates (§4.2). reply: maximum tokens of a reply (ours). observation: maximum characters
    shown of an observation (ours).
    """

    #: As in `ldm.agents.executor.LoopOptions`.
    digests: ClassVar[Mapping[str, tuple[str, Callable[[Path], str]]]] = {
        "plans": ("digest", plans.digest)
    }

    plans: str | None = None
    digest: str | None = None
    iteration: int | None = None
    plan: str | None = None
    budget: int | None = None
    card: CardChoice = "bare"
    admissible: bool = False
    joined: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    reply: int = 160
    observation: int = 4000

    def __post_init__(self) -> None:
        if self.reply < 1 or self.observation < 1:
            raise ValueError("reply and observation are 1 or more")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError("temperature is 0 or more, top_p above 0 and at most 1")
        if self.iteration is not None and self.iteration < 0:
            raise ValueError("iteration is 0 or more")


class AutoPlanAgent:
    """Thinks about where in the plan it is, says what to do, and does it once it is formalised."""

    name = "autoplan"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ("llm",)
    paper: ClassVar[str] = "AutoPlan, arXiv 2305.15064"
    formerly: ClassVar[Sequence[str]] = (
        "was told the world's rules, asked for thought and action in one call, and its formaliser "
        "knew actions that it was not shown",
    )
    Options: ClassVar[type[AutoPlanOptions]] = AutoPlanOptions

    def __init__(self, options: AutoPlanOptions, resources: Resources) -> None:
        self.options = options
        self._resources = resources

    @staticmethod
    def sources(options: AutoPlanOptions, env: str) -> Iterable[str]:
        """Return the sources of the tasks that plans were made from: they may not be evaluated.

        Raises LdmError where there are no plans, none of the iteration that is to be followed, or
        others than when the run began.
        """
        if options.plans is None:
            return frozenset()
        if options.digest not in (None, plans.digest(Path(options.plans))):
            raise LdmError(
                f"The plans in {options.plans} have changed since the run began.",
                "Start a new run, or restore the earlier plans.",
            )
        _followed(options, env)
        known = plans.in_folder(Path(options.plans), env)
        return frozenset(source for plan in known for source in plan.sources)

    @staticmethod
    def notice(options: AutoPlanOptions) -> str:
        """Return what to say where no plan is named: the agent then follows none."""
        if options.plans is not None or options.plan is not None:
            return ""
        return (
            "autoplan starts with an empty plan, because none is named. Make plans with "
            "`ldm autoplan`, and name their folder with --plans."
        )

    @staticmethod
    def kinds(options: AutoPlanOptions, env: str) -> frozenset[str] | None:
        """Return the kinds of task that there are plans for.

        None where one plan is for all kinds, or no folder is used.
        """
        if options.plans is None or options.plan is not None:
            return None
        kinds = {plan.kind for plan in _followed(options, env)}
        return None if plans.ALL in kinds else frozenset(kinds)

    def budget(self, card: Card) -> int:
        """Return the steps of a trial: as set, as published for the environment, or 35."""
        budget = self.options.budget
        return published(card, "budget", BUDGET) if budget is None else budget

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
        path = plans.find(Path(options.plans), episode.env_name, episode.kind)
        if path is None:
            raise LdmError(
                f"There is no plan for {episode.kind} in {options.plans}.",
                f"Make one with `ldm autoplan --env {episode.env_name} --kind {episode.kind}`.",
            )
        return plans.read(path).at(options.iteration)


def _followed(options: AutoPlanOptions, env: str) -> list[plans.PlanFile]:
    """Return the plans of the folder that hold the iteration to be followed.

    Raises LdmError where none does, and says which there are.
    """
    known = plans.in_folder(Path(options.plans or ""), env)
    number = options.iteration
    fitting = [plan for plan in known if number is None or number in plan.numbered()]
    if not fitting:
        known[0].at(number)
    return fitting


def published(card: Card, name: str, default: int) -> int:
    """Return what the method was published with in an environment (`Card.published`)."""
    return int(card.published.get(AutoPlanAgent.name, {}).get(name, default))


def prompt_card(card: Card, choice: CardChoice) -> Card:
    """Return what prompts tell of an environment."""
    return card if choice == "full" else card.bare()


def understood(text: str, verbs: frozenset[str]) -> replies.Reply:
    """Return the thought and the action in a reply; "Step 2: …" within it speaks of the plan.

    Everything before the first "Act:" is the thought.
    """
    label = _ACT.search(text)
    if label is None:
        return replies.read(_PLAN_STEP.sub("", text), verbs)
    action = replies.read(f"{replies.ACT}{_PLAN_STEP.sub('', text[label.end() :])}", verbs)
    return replace(action, thought=thought_in(text, verbs) or action.thought)


def thought_in(text: str, verbs: frozenset[str]) -> str:
    """Return the thought in a reply: what stands before the first "Act:", if anything does."""
    label = _ACT.search(text)
    before = text if label is None else text[: label.start()]
    # "Step 2: …" would be taken for the label of an action.
    before = _THINK.sub("", _PLAN_STEP.sub(r"\1 \2,", before)).strip()
    return replies.read(f"{replies.THINK} {before}", verbs).thought


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
        self.card = prompt_card(self.episode.card, self.options.card)
        self.verbs = replies.verbs_of(self.card)
        self.sampling = Sampling(self.options.temperature, self.options.top_p)

    def step(self) -> None:
        """Think, say what to do, and do it once it is formalised (§3.2.1, Eq. 2 to 5).

        Raises EpisodeOver when the trial ends, and what a model call raises.
        """
        thought, intention = self._joined() if self.options.joined else self._separate()
        self.intentions.append(intention)
        if self.options.joined and thought and not intention:  # takes a step, too
            self.steps.append(Step("", "", thought=thought))
            self.episode.think(thought)
            return
        formal = formalise(
            intention, self.card, self._admissible(), self.page, self.llm, self.sampling
        )
        self.counts[formal.how] += 1
        action = formal.action or NO_ACTION
        answer = self.episode.act(action, thought=thought)
        self.steps.append(Step(action, answer.observation, thought=thought, valid=answer.valid))
        if answer.valid:
            self.page = answer.observation

    def _separate(self) -> tuple[str, str]:
        """Ask for a thought, and given that for an action."""
        thought = thought_in(self._ask("thought"), self.verbs)
        reply = understood(self._ask("action", thought), self.verbs)
        return thought, reply.action or reply.thought

    def _joined(self) -> tuple[str, str]:
        """Ask for a thought and an action at once; there may be only one of them."""
        reply = understood(self._ask("both"), self.verbs)
        return reply.thought, reply.action

    def _ask(self, form: _Asked, thought: str = "") -> str:
        def prompt(view: View) -> list[Message]:
            steps = [*self.steps, Step("", "", thought=thought)] if thought else self.steps
            transcript = transcript_text(
                self.opening, steps, width=view.width, skipped=view.skipped
            )
            return render(
                "agents/autoplan/act",
                card=self.card,
                plan=self.plan,
                task=self.episode.goal,
                transcript=transcript,
                admissible=self._admissible(),
                asked=form,
            )

        completion, self.view = ask(
            self.llm,
            prompt,
            self.view,
            len(self.steps),
            sampling=self.sampling,
            max_tokens=self.options.reply,
            stop=_THOUGHT_STOP if form == "thought" else _STOP,
        )
        return completion.text

    def _admissible(self) -> tuple[str, ...] | None:
        """Return the possible actions, where the agent is shown them."""
        return self.episode.now.admissible if self.options.admissible else None

"""The loop of every agent that asks a model: prompt it, read its reply, act, until it is done.

A method is a `Loop` with its own `prompt`, `read` or `done`. The defaults are those of ReAct (Yao
et al., arXiv 2210.03629) and of ADaPT's executors (arXiv 2311.05772, §3.1), which end by saying
that they have completed their task or failed. An executor's demonstrations are whole tasks, atomic
skills or both (§6.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

from ldm.agents import Resources, demonstrations, replies
from ldm.agents.replies import Reply, Verdict, example_texts, localized, transcript_text
from ldm.episode import NO_ACTION, Agent, Episode, EpisodeOver
from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, LLM, Completion, Message, Sampling
from ldm.prompts import render
from ldm.types import Card, Count, Positive, Step, Trajectory

#: The start of an observation that a reply imagines.
STOP = (f"\n{replies.SEEN}",)
#: Minimum characters of an observation; shorter prompts are not tried.
NARROWEST = 160

#: "bare" describes the world and the forms of actions, "full" also the world's rules.
CardChoice = Literal["bare", "full"]


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Options of every loop; both lengths are ours."""

    budget: Annotated[
        int | None, "Steps of a trial, thoughts included; none: by the environment's card"
    ] = None
    reply: Annotated[Positive, "Maximum tokens of a reply"] = 120
    observation: Annotated[Positive, "Maximum characters shown of an observation"] = 4000


@dataclass(frozen=True, slots=True)
class View:
    """The limits on a prompt's contents.

    demonstrations: their number. width: characters of an observation. skipped: the number of oldest
    steps that are left out.
    """

    demonstrations: int
    width: int
    skipped: int = 0

    def transcript(self, opening: str, steps: Sequence[Step], *, thoughts: bool = True) -> str:
        """Return a process in labelled lines, as far as it is shown."""
        width, skipped = self.width, self.skipped
        return transcript_text(opening, steps, width=width, thoughts=thoughts, skipped=skipped)

    def shorter(self, steps: int) -> View | None:
        """Return the next shorter view of a transcript of `steps` steps, or None at the shortest.

        Demonstrations go first, then the older half of the steps, then the length of observations.
        """
        if self.demonstrations:
            return replace(self, demonstrations=self.demonstrations - 1)
        if steps - self.skipped > 1:
            return replace(self, skipped=self.skipped + (steps - self.skipped + 1) // 2)
        if self.width > NARROWEST:
            return replace(self, width=max(NARROWEST, self.width // 2))
        return None


def ask(
    llm: LLM, prompt: Callable[[View], list[Message]], view: View, steps: int, **options: Any
) -> tuple[Completion, View]:
    """Return the reply to `prompt(view)`, or to a shorter view if it is too long, and the view.

    steps: length of the transcript. options: of `LLM.complete`.
    Raise ContextTooLong if nothing is left to shorten, ModelError and RunStopped.
    """
    while True:
        try:
            return llm.complete(prompt(view), **options), view
        except ContextTooLong:
            smaller = view.shorter(steps)
            if smaller is None:
                raise
            view = smaller


class Hint(NamedTuple):
    """A text that a prompt shows before the transcript: a plan, lessons, an inventory.

    tag: a short lower-case word that fences `text`.
    """

    title: str
    tag: str
    text: str


@dataclass(frozen=True, slots=True)
class Work:
    """The task of one run of the loop, and the contents of its prompts.

    task: the goal or a part of it, in words. opening: the first observation; None for the present
    one. steps: maximum of this run, thoughts included; None for as many as the trial has left.
    thinking: ask for thoughts. judged: the model may end the run by a verdict. listed: show the
    possible actions. card: the one that prompts show; None for the episode's. actions: maximum of
    the trial, which ends it.
    """

    task: str
    demonstrations: tuple[Trajectory, ...] = ()
    hints: tuple[Hint, ...] = ()
    opening: str | None = None
    steps: int | None = None
    thinking: bool = True
    judged: bool = False
    listed: bool = False
    sampling: Sampling = GREEDY
    card: Card | None = None
    actions: int | None = None


class Outcome(NamedTuple):
    """The end and the steps of a run. "budget": it took all its own steps; the trial continues.

    When the trial itself ends, `EpisodeOver` unwinds the run instead.
    """

    end: Literal["completed", "failed", "budget"]
    steps: tuple[Step, ...]


class Loop:
    """One run in the running trial: its steps so far, and how much of them a prompt shows."""

    #: The prompt's template.
    template = "agents/react"
    #: Whether a thought and its action are one step; else each takes a step.
    joined = False
    #: Texts that end a reply.
    stop: tuple[str, ...] = STOP

    def __init__(self, episode: Episode, llm: LLM, work: Work, options: LoopOptions) -> None:
        self.episode = episode
        self.llm = llm
        self.work = work
        self.options = options
        self.opening = episode.now.observation if work.opening is None else work.opening
        self.view = self.widest = View(len(work.demonstrations), options.observation)
        self.card = work.card or episode.card
        self.verbs = replies.verbs_of(self.card, work.demonstrations)
        self.steps: list[Step] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> Outcome:
        """Work until the model or the run's own steps end it.

        Raise EpisodeOver when the trial ends, ModelError if not even the shortest prompt fits, and
        RunStopped.
        """
        try:
            while not self.spent:
                reply = self.read(self.ask())
                self.take(reply)
                if end := self.done(reply):
                    return Outcome(end, tuple(self.steps))
            return Outcome("budget", tuple(self.steps))
        finally:
            self.note()

    def prompt(self, view: View) -> list[Message]:
        """Return the next messages to the model."""
        work, included = self.work, self.work.demonstrations[: view.demonstrations]
        return render(
            self.template,
            card=self.card,
            thinking=work.thinking,
            judged=work.judged,
            demonstrations=example_texts(
                included, width=view.width, thoughts=work.thinking, judged=work.judged
            ),
            task=work.task,
            hints=self.hints(view),
            transcript=view.transcript(self.opening, self.steps, thoughts=work.thinking),
            thought=bool(self.steps and not self.steps[-1].action),
            admissible=self.admissible,
        )

    def hints(self, view: View) -> tuple[Hint, ...]:
        """Return the texts that the prompt shows before the transcript."""
        return self.work.hints

    def read(self, text: str) -> Reply:
        """Return the move that a reply asks for; an empty one is an invalid action."""
        thinking = self.work.thinking
        reply = replies.read(text, self.verbs, judged=self.work.judged)
        if not (thinking or reply.action or reply.verdict):  # a thought is no action
            reply = replace(reply, form="malformed")
        self.counts[reply.form] += 1
        self.counts["dropped"] += reply.dropped
        acts = not reply.verdict and (reply.action or reply.form == "malformed" or not thinking)
        action = (reply.action or reply.thought or NO_ACTION) if acts else ""
        return replace(reply, thought=reply.thought if thinking else "", action=action)

    def done(self, reply: Reply) -> Verdict:
        """Return how `reply` ends the run, or "" if it goes on."""
        return reply.verdict

    def ask(self) -> str:
        """Return the model's reply; a prompt that had to be shortened stays shorter."""
        completion, self.view = ask(
            self.llm,
            self.prompt,
            self.view,
            len(self.steps),
            sampling=self.work.sampling,
            max_tokens=self.options.reply,
            stop=self.stop,
        )
        return completion.text

    def take(self, reply: Reply) -> None:
        """Think and act as `reply` says. Raise EpisodeOver when that ends the trial."""
        thought = reply.thought
        if thought and not (self.joined and reply.action):
            self.episode.think(thought)
            self.steps.append(Step("", "", thought=thought))
            thought = ""
        if reply.action and not self.spent:
            action = self.episode.card.listed(reply.action, self.admissible)
            answer = self.episode.act(action, thought=thought)
            self.steps.append(Step(action, answer.observation, thought=thought, valid=answer.valid))
            if sum(bool(step.action) for step in self.episode.steps) == self.work.actions:
                raise EpisodeOver("budget")

    @property
    def spent(self) -> bool:
        """Whether the run has taken all its own steps."""
        return self.work.steps is not None and len(self.steps) >= self.work.steps

    @property
    def admissible(self) -> tuple[str, ...] | None:
        """The possible actions, if the model is shown them."""
        return self.episode.now.admissible if self.work.listed else None

    def note(self) -> None:
        """Record the forms of replies and the omissions of prompts, however the run ended."""
        forms = {name: self.counts[name] for name in ("loose", "malformed")}
        total = self.counts["asked"] + sum(forms.values())
        note = {"replies": total, **forms, "dropped": self.counts["dropped"]}
        if self.view != self.widest:
            note["left_out_demonstrations"] = self.widest.demonstrations - self.view.demonstrations
            note["left_out_steps"] = self.view.skipped
            note["observation"] = self.view.width
        self.episode.note("replies", **note)


class LoopAgent(Agent):
    """Base of agents that work in the loop; subclasses add name, paper and `solve`."""

    needs: ClassVar[Sequence[str]] = ("llm",)
    Options = LoopOptions
    _resources: Resources
    #: Steps of a trial if neither the options nor the environment's card name a number.
    default_budget: ClassVar[int] = 60

    def budget(self, card: Card) -> int:
        """Return the maximum steps of a trial, thoughts included."""
        return self.setting(card, "budget", self.default_budget)

    def setting(self, card: Card, option: str, default: int) -> int:
        """Return an option; if it is None, the value published for the environment or `default`."""
        value: int | None = getattr(self.options, option)
        return self.published(card, option, default) if value is None else value

    @classmethod
    def published(cls, card: Card, option: str, default: int) -> int:
        """Return the value published for the environment of this card, or `default`."""
        return int(card.published.get(cls.name, {}).get(option, default))


def prompt_card(card: Card, choice: CardChoice) -> Card:
    """Return the card that prompts show."""
    return card if choice == "full" else card.bare()


#: The strengths of ADaPT's executors (arXiv 2311.05772, §6.2 and Fig. 5), see `ExecutorOptions`.
Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class ExecutorOptions(LoopOptions):
    """Options of agents that are shown demonstrations, two as in LDM², Table 2.

    A strength makes it an executor of ADaPT (§6.2, Fig. 5), which says when it has completed its
    task or failed: "skills" is shown a demonstration of each atomic skill (Table 1), "hybrid" those
    and whole tasks that are the same for any kind of task (§4.1), "task" whole tasks of the task's
    kind (App. C). Without a strength it is shown whole tasks of the kind and judges nothing.
    Without shots it is shown neither skills nor plans. The papers show no admissible actions.
    """

    admissible: Annotated[bool, "Show the possible actions if the environment lists them"] = False
    shots: Annotated[Count, "Demonstrations of whole tasks in a prompt"] = 2
    strength: Annotated[Strength | None, "Demonstrations of an executor that judges itself"] = None
    demonstrations: Annotated[str | None, "File of trajectories to show instead"] = None
    demonstrations_digest: Annotated[str | None, "Digest of that file; set by ldm"] = None


class ExecutorAgent(LoopAgent):
    """Base of agents that are shown demonstrations."""

    Options = ExecutorOptions
    options: ExecutorOptions
    digests = demonstrations.DIGESTS
    #: Whether it is also shown skills and plans, whatever its strength.
    divides: ClassVar[bool] = False
    #: The strength if neither the options nor the environment's card name one.
    default_strength: ClassVar[Strength | None] = None

    @classmethod
    def sources(cls, options: Any, env: str) -> Collection[str]:
        """Return the sources of the demonstrations, which must not be evaluated."""
        place, shots = options.demonstrations, options.shots
        skills = cls.divides or options.strength in ("hybrid", "skills")
        return demonstrations.sources(env, place, shots, with_skills=skills, with_plans=cls.divides)

    def strength(self, card: Card) -> Strength | None:
        """Return the strength of executors in the environment of this card."""
        published = card.published.get(self.name, {}).get("strength", self.default_strength)
        return self.options.strength or cast("Strength | None", published)


@dataclass(frozen=True, slots=True)
class TaskOptions(ExecutorOptions):
    """Options of agents that work on whole tasks.

    A bare card and a number of actions put them on AutoPlan's terms (arXiv 2305.15064, §3.1, §4.2):
    the world's rules are not told, and thoughts are free.
    """

    card: Annotated[CardChoice, "Show the grammar alone, or the world's rules too"] = "full"
    actions: Annotated[Positive | None, "Actions of a trial, in place of its steps"] = None


class TaskAgent(ExecutorAgent):
    """Base of agents that work on whole tasks."""

    Options = TaskOptions
    options: TaskOptions
    #: Whether the model is asked for thoughts.
    thinking: ClassVar[bool] = True

    def budget(self, card: Card) -> int:
        """Return the maximum steps of a trial: a thought may come before each counted action."""
        return super().budget(card) if self.options.actions is None else 2 * self.options.actions

    def attempt(self, episode: Episode, *hints: Hint, sampling: Sampling = GREEDY) -> None:
        """Play one trial of the whole task. hints: shown in addition to the skills."""
        llm = self._resources.model(episode)
        with episode.trial():
            work = replace(
                task_work(episode, self.options, *hints, sampling=sampling),
                thinking=self.thinking,
                card=prompt_card(episode.card, self.options.card),
                actions=self.options.actions,
            )
            Loop(episode, llm, work, self.options).run()


def task_work(
    episode: Episode, options: ExecutorOptions, *hints: Hint, sampling: Sampling = GREEDY
) -> Work:
    """Return the whole task as work for an executor of the options' strength.

    Call it within a trial, like `examples`. hints: shown in addition to the skills.
    """
    return Work(
        episode.goal,
        examples(episode, options),
        (*skill_hints(episode, options), *hints),
        judged=options.strength is not None,
        listed=options.admissible,
        sampling=sampling,
    )


def examples(episode: Episode, options: ExecutorOptions) -> tuple[Trajectory, ...]:
    """Return the demonstrations for an executor, in the words of the episode's task.

    Call it within a trial: only then does an environment know its dialect. Raise LdmError if the
    options name an unsuitable file.
    """
    card, shots = episode.card, options.shots
    whole = demonstrations.load(episode.env_name, options.demonstrations)
    chosen: tuple[Trajectory, ...] = ()
    if options.strength not in ("hybrid", "skills"):
        chosen = demonstrations.chosen(whole, episode.kind, shots)
    elif shots:
        skills = demonstrations.skills(episode.env_name, options.demonstrations)
        chosen = tuple(one for one in skills if one.task.kind not in card.judged)
        if options.strength == "hybrid":
            chosen += demonstrations.common(whole, card.common, shots)
    return tuple(localized(one, episode.localize) for one in chosen)


def skill_hints(episode: Episode, options: ExecutorOptions) -> tuple[Hint, ...]:
    """Return the environment's skills in words, for executors without a demonstration of them."""
    skills = episode.card.skills
    if options.strength not in ("hybrid", "skills") or not skills:
        return ()
    if demonstrations.skills(episode.env_name, options.demonstrations) and options.shots:
        return ()
    return (Hint("What such a task is made of", "skills", "\n".join(skills)),)

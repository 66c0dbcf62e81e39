"""The loop that think–act–observe agents share: one model call gives the next thought or action.

`run` works on one text task within a running trial: on the goal for ReAct (Yao et al., arXiv
2210.03629), on a sub-task with a step budget of its own for an ADaPT executor (arXiv 2311.05772,
§3.1), which ends by saying that it has completed or failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from ldm.agents import Resources, demonstrations, replies
from ldm.agents.replies import Reply
from ldm.agents.transcript import View, ask, example_texts, localized, transcript_text
from ldm.episode import NO_ACTION, Episode
from ldm.llm import GREEDY, LLM, Message, Sampling
from ldm.prompts import render
from ldm.types import Card, Step, Trajectory

#: Steps of a trial, thoughts included, where the environment's card has no published number.
BUDGET = 60
#: Where a reply goes on with what it imagines to see.
STOP = (f"\n{replies.SEEN}",)

#: How able ADaPT makes its executors (arXiv 2311.05772, §6.2 and Fig. 5), see `LoopOptions`.
Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Settings of agents that work in the loop.

    budget: steps of a trial, thoughts included; None for the environment's published number (ADaPT,
    App. A; ReAct, §3.2, on HotpotQA), or 60. shots: demonstrations of whole tasks that a prompt
    shows, two as in LDM², Table 2 (ReAct, §3.2: six on HotpotQA); `strength` says which ones; with
    0, none of skills or plans are shown either.
    strength: which executor of ADaPT's acts (ADaPT, §6.2 and Fig. 5), one that says when it has
    completed its task or failed: "skills" is shown a demonstration of each atomic skill (Table 1),
    "hybrid" those and whole tasks that are the same whatever the task's kind (§4.1), "task" whole
    tasks of its kind (App. C); None for whole tasks of its kind without that judgement.
    demonstrations: a file of trajectories in place of the shipped ones (ours); for the files that
    may lie beside it, see `ldm.agents.demonstrations`. demonstrations_digest: digest of the file
    of demonstrations when the run began (ours); set by the command line, so that no run mixes two.
    admissible: show the actions that are possible, where the environment lists them (ours; the
    papers show none). reply: maximum tokens of a reply (ours). observation: maximum characters
    shown of an observation (ours).
    """

    #: Options that name files → the option that records the digest, and what computes it.
    digests: ClassVar[Mapping[str, tuple[str, Callable[[Path], str]]]] = {
        "demonstrations": ("demonstrations_digest", demonstrations.digest)
    }

    budget: int | None = None
    shots: int = 2
    strength: Strength | None = None
    demonstrations: str | None = None
    demonstrations_digest: str | None = None
    admissible: bool = False
    reply: int = 120
    observation: int = 4000

    def __post_init__(self) -> None:
        if self.shots < 0:
            raise ValueError("shots is 0 or more")
        if self.reply < 1 or self.observation < 1:
            raise ValueError("reply and observation are 1 or more")


class LoopAgent:
    """What agents of the loop share; each adds its name, its paper and `solve`."""

    name: str
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ("llm",)
    Options: ClassVar[type[LoopOptions]] = LoopOptions

    def __init__(self, options: LoopOptions, resources: Resources) -> None:
        self.options = options
        self._resources = resources

    @staticmethod
    def sources(options: LoopOptions, env: str) -> Iterable[str]:
        """Return the sources of what its prompts show: they may not be evaluated.

        Raises LdmError where the demonstrations are no longer those that the run began with.
        """
        demonstrations.check(options.demonstrations, options.demonstrations_digest)
        skills = options.strength in ("hybrid", "skills")
        place, shots = options.demonstrations, options.shots
        return demonstrations.sources(env, place, shots, with_skills=skills)

    def budget(self, card: Card) -> int:
        """Return the steps of a trial, thoughts included."""
        return self.setting(card, "budget", BUDGET)

    def setting(self, card: Card, option: str, default: int) -> int:
        """Return an option; where it is None, the value published for it, or else `default`."""
        value: int | None = getattr(self.options, option)
        if value is None:
            return int(card.published.get(self.name, {}).get(option, default))
        return value


@dataclass(frozen=True, slots=True)
class Hint:
    """Something that a prompt shows before the transcript: a plan, lessons, an inventory.

    tag: a short word in small letters that fences `text`.
    """

    title: str
    tag: str
    text: str


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of the loop is to do.

    task: in words: the goal or a part of it. opening: what is seen first; None for what is seen
    now. steps: of this run, thoughts included; None for as many as the trial has left.
    thinking: whether thoughts are asked for. judged: whether the model may end the run by saying
    that the task is completed or failed.
    """

    task: str
    demonstrations: tuple[Trajectory, ...] = ()
    hints: tuple[Hint, ...] = ()
    opening: str | None = None
    steps: int | None = None
    thinking: bool = True
    judged: bool = False
    sampling: Sampling = GREEDY


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and its steps. "budget": its own steps are spent; the trial goes on.

    When the trial itself ends, `EpisodeOver` unwinds the run instead.
    """

    end: Literal["completed", "failed", "budget"]
    steps: tuple[Step, ...]


def task_work(
    episode: Episode, options: LoopOptions, *hints: Hint, sampling: Sampling = GREEDY
) -> Work:
    """Return the whole task as work for an executor of the options' strength.

    Call it within a trial, as `examples`. hints: what else it is shown.
    """
    return Work(
        episode.goal,
        examples(episode, options),
        (*skill_hints(episode, options), *hints),
        judged=options.strength is not None,
        sampling=sampling,
    )


def examples(episode: Episode, options: LoopOptions) -> tuple[Trajectory, ...]:
    """Return the demonstrations that an executor is shown, in the words of the episode's task.

    Call it within a trial: only then does an environment know its dialect. Raises LdmError where
    the options name a file that does not fit.
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


def skill_hints(episode: Episode, options: LoopOptions) -> tuple[Hint, ...]:
    """Return the environment's skills in words, for executors to whom none can be demonstrated."""
    skills = episode.card.skills
    if options.strength not in ("hybrid", "skills") or not skills:
        return ()
    if demonstrations.skills(episode.env_name, options.demonstrations) and options.shots:
        return ()
    return (Hint("What such a task is made of", "skills", "\n".join(skills)),)


def run(episode: Episode, llm: LLM, work: Work, options: LoopOptions) -> Outcome:
    """Work on `work` in the running trial until the model or the step budget ends it.

    One model call gives the next thought, action, or both; a thought takes a step of the budgets
    like an action. A reply that says nothing of use is an invalid action. How the replies were
    formed goes into the record as a note "replies".
    Raises EpisodeOver when the trial ends, ModelError where not even the shortest prompt fits, and
    RunStopped.
    """
    loop = _Loop(episode, work, options)
    with loop.counted():
        while not loop.spent:
            completion, loop.view = ask(
                llm,
                loop.prompt,
                loop.view,
                len(loop.steps),
                sampling=work.sampling,
                max_tokens=options.reply,
                stop=STOP,
            )
            reply = replies.read(completion.text, loop.verbs, judged=work.judged)
            if not (work.thinking or reply.action or reply.verdict):  # a thought is no action
                reply = replace(reply, form="malformed")
            loop.counts[reply.form] += 1
            loop.counts["dropped"] += reply.dropped
            if reply.thought and work.thinking:
                loop.think(reply.thought)
            if reply.verdict:
                return Outcome(reply.verdict, tuple(loop.steps))
            if _acts(reply, work) and not loop.spent:
                loop.act(reply.action or reply.thought)
    return Outcome("budget", tuple(loop.steps))


def _acts(reply: Reply, work: Work) -> bool:
    """Return whether to act: also where an agent that only acts got a thought or nothing."""
    return bool(reply.action) or reply.form == "malformed" or not work.thinking


@dataclass
class _Loop:
    """The state of one run: what was done in it, and how much of it the model is shown."""

    episode: Episode
    work: Work
    options: LoopOptions
    steps: list[Step] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        now = self.episode.now
        self.opening = now.observation if self.work.opening is None else self.work.opening
        self.view = self._widest = View(len(self.work.demonstrations), self.options.observation)
        self.verbs = replies.verbs_of(self.episode.card, self.work.demonstrations)

    @property
    def spent(self) -> bool:
        return self.work.steps is not None and len(self.steps) >= self.work.steps

    @property
    def admissible(self) -> tuple[str, ...] | None:
        """The possible actions, where the model is shown them."""
        return self.episode.now.admissible if self.options.admissible else None

    def think(self, thought: str) -> None:
        self.steps.append(Step("", "", thought=thought))
        self.episode.think(thought)

    def act(self, action: str) -> None:
        action = self.episode.card.listed(action, self.admissible) or NO_ACTION
        answer = self.episode.act(action)
        self.steps.append(Step(action, answer.observation, valid=answer.valid))

    def prompt(self, view: View) -> list[Message]:
        work, width = self.work, view.width
        return render(
            "agents/react",
            card=self.episode.card,
            thinking=work.thinking,
            judged=work.judged,
            demonstrations=example_texts(
                work.demonstrations[: view.demonstrations],
                width=width,
                thoughts=work.thinking,
                judged=work.judged,
            ),
            task=work.task,
            hints=work.hints,
            transcript=transcript_text(
                self.opening,
                self.steps,
                width=width,
                thoughts=work.thinking,
                skipped=view.skipped,
            ),
            thought=bool(self.steps and not self.steps[-1].action),
            admissible=self.admissible,
        )

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Note how the replies were formed, however the run ends."""
        try:
            yield
        finally:
            forms = {name: self.counts[name] for name in ("loose", "malformed")}
            total = self.counts["asked"] + sum(forms.values())
            note = {"replies": total, **forms, "dropped": self.counts["dropped"]}
            if self.view != self._widest:
                note["left_out_demonstrations"] = (
                    self._widest.demonstrations - self.view.demonstrations
                )
                note["left_out_steps"] = self.view.skipped
                note["observation"] = self.view.width
            self.episode.note("replies", **note)

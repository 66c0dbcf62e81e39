"""Chain of thought (Wei et al., arXiv 2201.11903): a thought and an answer, and nothing looked up.

This is the baseline of ReAct (Yao et al., arXiv 2210.03629, §3.2): the demonstrations are
trajectories without actions and observations. Several samples and a vote among their answers are
self-consistency (Wang et al., arXiv 2203.11171), its CoT-SC; no thought at all is its Standard.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from ldm.agents import demonstrations, replies
from ldm.agents.loop import Loop, LoopOptions, View, Work
from ldm.agents.replies import THINK, Reply
from ldm.episode import NO_ACTION, Agent, Episode
from ldm.errors import LdmError
from ldm.llm import GREEDY, LLM, Message, Sampling
from ldm.prompts import render
from ldm.reporting import Measure, Reporting, noted
from ldm.types import Card, Count, EpisodeResult, Positive, Trajectory, by_key

#: The label of the answer's line, and the placeholder for the answer in `Card.answer`.
ANSWER, PLACE = "Answer:", "ANSWER"
#: Note of an episode: the answers and their counts.
NOTE = "answers"

_SAID = re.compile(r"\banswer\s+(?:is|would be)\s*:?\s*(\S.*)", re.IGNORECASE)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class CotOptions:
    """Options of chain of thought.

    Without a thought it is ReAct's Standard (§3.2). A single sample is greedy; 21 samples at 0.7
    are ReAct's CoT-SC. Six shots are ReAct's on HotpotQA; none is zero-shot (arXiv 2205.11916).
    """

    thought: Annotated[bool, "Reason before answering"] = True
    samples: Annotated[Positive, "Replies drawn, of which the most frequent answer is taken"] = 1
    temperature: Annotated[float, "Sampling temperature of several samples"] = 0.7
    shots: Annotated[Count, "Demonstrations in a prompt, those of the task's kind first"] = 6
    demonstrations: Annotated[str | None, "File of trajectories to show instead"] = None
    demonstrations_digest: Annotated[str | None, "Digest of that file; set by ldm"] = None
    reply: Annotated[Positive, "Maximum tokens of a reply"] = 300

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError("temperature must be above 0: at 0 all samples would be the same")


def _agreement(result: EpisodeResult) -> float | None:
    """Return the percentage of several samples with the chosen answer; None for a single one."""
    data = noted(result, NOTE)
    if data is None or len(data["samples"]) == 1:
        return None
    return 100 * len(data["votes"]) / len(data["samples"])


class CotAgent(Agent):
    """Answers from what the model knows, by reasoning alone; several samples vote."""

    name = "cot"
    sees_actions = False  # it answers, and does not choose among actions
    needs = ("llm",)
    paper = "CoT, arXiv 2201.11903, and CoT-SC, as in ReAct, arXiv 2210.03629, §3.2"
    reporting = Reporting(
        (Measure("agreement", "per cent of its samples that gave the chosen answer", _agreement),)
    )
    Options = CotOptions
    options: CotOptions
    digests = demonstrations.DIGESTS

    @classmethod
    def sources(cls, options: CotOptions, env: str) -> Collection[str]:
        """Return the sources of the demonstrations, which must not be evaluated."""
        return demonstrations.sources(env, options.demonstrations, options.shots)

    @classmethod
    def check(cls, card: Card, options: CotOptions) -> None:
        """Raise LdmError if no single action answers a task."""
        if PLACE not in card.answer:
            raise LdmError(
                f"The agent {cls.name} answers questions, and a task of {card.name} is none: "
                "no single action answers it (`Card.answer`).",
                "Use an environment of questions, or an agent that acts, such as act or react.",
            )

    def budget(self, card: Card) -> int:
        """Return 1: the answer is the only step."""
        return 1

    def solve(self, episode: Episode) -> None:
        """Play one trial. Raise LdmError if no single action answers a task."""
        self.check(episode.card, self.options)
        with episode.trial():
            _Answering(episode, self._resources.model(episode), self.options).run()


class _Answering(Loop):
    """A loop of one step: the most frequent answer of the samples."""

    joined = True
    stop = ()

    def __init__(self, episode: Episode, llm: LLM, options: CotOptions) -> None:
        known = demonstrations.load(episode.env_name, options.demonstrations)
        chosen = demonstrations.chosen(known, episode.kind, options.shots)
        texts = [example(one, episode.card, thinking=options.thought) for one in chosen]
        usable = [(one, text) for one, text in zip(chosen, texts, strict=True) if text]
        self.examples = [text for _, text in usable]
        self.cot = options
        self.drawn: list[Reply] = []
        self.votes: list[int] = []
        sampling = GREEDY if options.samples == 1 else Sampling(options.temperature)
        work = Work(episode.goal, tuple(one for one, _ in usable), sampling=sampling)
        # There is no observation to shorten.
        super().__init__(episode, llm, work, LoopOptions(reply=options.reply, observation=1))

    def prompt(self, view: View) -> list[Message]:
        return render(
            "agents/cot",
            thinking=self.cot.thought,
            examples=self.examples[: view.demonstrations],
            task=self.episode.goal,
        )

    def read(self, text: str) -> Reply:
        """Return the most frequent answer of the samples; `text` is the first of them."""
        for number in range(self.cot.samples):
            reply = self.ask() if number else text
            self.drawn.append(read(reply, self.episode.card, thinking=self.cot.thought))
            self.counts[self.drawn[-1].form] += 1
        self.votes = counted([one.action for one in self.drawn])
        if not self.votes:
            return Reply(action=NO_ACTION)
        chosen = self.drawn[self.votes[0]]
        return replace(chosen, action=self.episode.card.answer.replace(PLACE, chosen.action))

    def note(self) -> None:
        super().note()
        samples = [{"thought": one.thought, "answer": one.action} for one in self.drawn]
        self.episode.note(NOTE, samples=samples, votes=self.votes)


def example(trajectory: Trajectory, card: Card, *, thinking: bool) -> str:
    """Return a demonstration's task, thoughts and answer; "" if it does not end with one."""
    acted = [step.action for step in trajectory.steps if step.action]
    answer = unwrapped(acted[-1], card) if acted else ""
    if not acted or answer == acted[-1]:
        return ""
    thought = " ".join(step.thought for step in trajectory.steps if step.thought)
    lines = [f"Task: {trajectory.task.goal}", f"{ANSWER} {answer}"]
    if thinking and thought:
        lines.insert(1, f"{THINK} {thought}")
    return "\n".join(lines)


def read(text: str, card: Card, *, thinking: bool) -> Reply:
    """Return the thought and the answer in a reply, which stands in place of its action.

    Without a labelled answer, it is what follows the last "the answer is", or the first line.
    """
    reply = replies.read(text, frozenset())
    answer, form = reply.action, reply.form
    if answer and form != "malformed":
        form = "asked" if bool(reply.thought) == thinking else "loose"
    elif answers := _SAID.findall(text[: replies.LONGEST_REPLY]):
        form = "loose"
        answer = answers[-1].strip().rstrip(".").rstrip()[: replies.LONGEST_ACTION]
    else:
        form = "malformed"
    return Reply(reply.thought, unwrapped(answer, card), form=form)


def unwrapped(answer: str, card: Card) -> str:
    """Return an answer without the action around it: "finish[Rome]" becomes "Rome"."""
    before, _, after = card.answer.partition(PLACE)
    whole = re.fullmatch(rf"(?i:{re.escape(before)})(.*){re.escape(after)}", answer, re.DOTALL)
    return whole[1].strip() if whole else answer


def counted(answers: Sequence[str]) -> list[int]:
    """Return the indices of the most frequent answer; of equally frequent ones, the first drawn.

    Answers are the same if they differ only in case, punctuation or articles. Empty answers are not
    counted; the list is empty if all are.
    """
    known = ((place, answer) for place, answer in enumerate(answers) if answer.strip())
    places = by_key((folded(answer), place) for place, answer in known)
    return max(places.values(), key=len, default=[])


def folded(answer: str) -> str:
    """Return an answer in lower case, without punctuation, articles or extra blanks."""
    plain = "".join(
        char for char in answer.casefold() if not unicodedata.category(char).startswith("P")
    )
    words = " ".join(_ARTICLES.sub(" ", plain).split())
    return words or answer.casefold()

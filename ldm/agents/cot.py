"""Chain of thought (Wei et al., arXiv 2201.11903): a thought and an answer, and nothing looked up.

As ReAct compares itself with it (Yao et al., arXiv 2210.03629, §3.2): the demonstrations are
trajectories without actions and observations. Several samples and a vote among their answers are
self-consistency (Wang et al., arXiv 2203.11171), its CoT-SC; no thought at all is its Standard.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ldm.agents import Resources, demonstrations, replies
from ldm.agents.replies import THINK, Form
from ldm.agents.reporting import Measure, Reporting
from ldm.agents.transcript import View, ask
from ldm.episode import Episode
from ldm.errors import LdmError
from ldm.llm import GREEDY, LLM, Message, Sampling
from ldm.prompts import render
from ldm.types import Card, EpisodeResult, Trajectory

#: How the line of the answer is labelled, and what stands for it in `Card.answer`.
ANSWER, PLACE = "Answer:", "ANSWER"
#: Note of an episode: what was answered, and how the answers were counted.
NOTE = "answers"

_SAID = re.compile(r"\banswer\s+(?:is|would be)\s*:?\s*(\S.*)", re.IGNORECASE)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True, slots=True)
class CotOptions:
    """thought: reason before answering (arXiv 2201.11903, §2); without it, Standard of ReAct, §3.2.
    samples: with 1 the reply is greedy; with several, each is drawn at `temperature`, and the
    answer that most of them give is taken (arXiv 2203.11171, §2; 21 are CoT-SC of ReAct, §3.2).
    temperature: sampling temperature of several samples (ReAct, §3.2). shots: demonstrations that
    the prompt shows, those of the task's kind first (ReAct, §3.2: 6 on HotpotQA); 0 is zero-shot
    (arXiv 2205.11916).
    demonstrations: a file of trajectories in place of the shipped ones (ours).
    demonstrations_digest: digest of the file of demonstrations when the run began (ours); set by
    the command line, so that no run mixes two. reply: maximum tokens of a reply (ours).
    """

    #: As in `ldm.agents.executor.LoopOptions`.
    digests: ClassVar[Mapping[str, tuple[str, Callable[[Path], str]]]] = {
        "demonstrations": ("demonstrations_digest", demonstrations.digest)
    }

    thought: bool = True
    samples: int = 1
    temperature: float = 0.7
    shots: int = 6
    demonstrations: str | None = None
    demonstrations_digest: str | None = None
    reply: int = 300

    def __post_init__(self) -> None:
        if self.shots < 0:
            raise ValueError("shots is 0 or more")
        if self.samples < 1 or self.reply < 1:
            raise ValueError("samples and reply are 1 or more")
        if self.temperature <= 0:
            raise ValueError("temperature is above 0: at 0 all samples would be the same")


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it was understood; "" where there is none. form: as of `replies.Reply`."""

    thought: str
    answer: str
    form: Form


def _agreement(result: EpisodeResult) -> float | None:
    """Return how many per cent of several samples gave the chosen answer; None for a single one."""
    for note in result.notes:
        if note.kind == NOTE and len(note.data["samples"]) > 1:
            return 100 * len(note.data["votes"]) / len(note.data["samples"])
    return None


class CotAgent:
    """Answers from what the model knows, by reasoning alone; several samples vote."""

    name = "cot"
    sees_reward = False
    sees_actions: ClassVar[bool] = False  # it answers, and chooses among nothing
    needs: ClassVar[Sequence[str]] = ("llm",)
    paper: ClassVar[str] = "CoT, arXiv 2201.11903, and CoT-SC, as in ReAct, arXiv 2210.03629, §3.2"
    reporting: ClassVar[Reporting] = Reporting(
        (Measure("agreement", "per cent of its samples that gave the chosen answer", _agreement),)
    )
    Options: ClassVar[type[CotOptions]] = CotOptions

    def __init__(self, options: CotOptions, resources: Resources) -> None:
        self.options = options
        self._resources = resources

    @staticmethod
    def sources(options: CotOptions, env: str) -> Iterable[str]:
        """Return the sources of what its prompts show: they may not be evaluated.

        Raises LdmError where the demonstrations are no longer those that the run began with.
        """
        demonstrations.check(options.demonstrations, options.demonstrations_digest)
        return demonstrations.sources(env, options.demonstrations, options.shots)

    @staticmethod
    def check_card(options: CotOptions, card: Card) -> None:
        """Raise LdmError where tasks cannot be answered at once."""
        if PLACE not in card.answer:
            raise LdmError(
                f"The agent {CotAgent.name} answers questions, and a task of {card.name} is none: "
                "no single action answers it (`Card.answer`).",
                "Use an environment of questions, or an agent that acts, such as act or react.",
            )

    def budget(self, card: Card) -> int:
        """Return the steps of a trial: the answer is the only one."""
        return 1

    def solve(self, episode: Episode) -> None:
        """Start one trial. Raises LdmError where tasks cannot be answered at once."""
        self.check_card(self.options, episode.card)
        with episode.trial():
            drawn = self._draw(episode, self._resources.model(episode))
            votes = counted([one.answer for one in drawn])
            chosen = drawn[votes[0]] if votes else Answer("", "", "malformed")
            forms = Counter(one.form for one in drawn)
            counts = {form: forms[form] for form in ("loose", "malformed")}
            episode.note("replies", replies=len(drawn), **counts, dropped=0)
            samples = [{"thought": one.thought, "answer": one.answer} for one in drawn]
            episode.note(NOTE, samples=samples, votes=votes)
            action = episode.card.answer.replace(PLACE, chosen.answer) if votes else ""
            episode.act(action, thought=chosen.thought)

    def _draw(self, episode: Episode, llm: LLM) -> list[Answer]:
        """Return what every sample answers."""
        options = self.options
        known = demonstrations.load(episode.env_name, options.demonstrations)
        examples = [
            text
            for one in demonstrations.chosen(known, episode.kind, options.shots)
            if (text := example(one, episode.card, thinking=options.thought))
        ]

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/cot",
                thinking=options.thought,
                examples=examples[: view.demonstrations],
                task=episode.goal,
            )

        sampling = GREEDY if options.samples == 1 else Sampling(options.temperature)
        view, drawn = View(len(examples), 0), []
        for _ in range(options.samples):
            completion, view = ask(
                llm, prompt, view, 0, sampling=sampling, max_tokens=options.reply
            )
            drawn.append(read(completion.text, episode.card, thinking=options.thought))
        return drawn


def example(trajectory: Trajectory, card: Card, *, thinking: bool) -> str:
    """Return a demonstration's task, thoughts and answer; "" where it does not end with one."""
    acted = [step.action for step in trajectory.steps if step.action]
    answer = unwrapped(acted[-1], card) if acted else ""
    if not acted or answer == acted[-1]:
        return ""
    thought = " ".join(step.thought for step in trajectory.steps if step.thought)
    lines = [f"Task: {trajectory.task.goal}", f"{ANSWER} {answer}"]
    if thinking and thought:
        lines.insert(1, f"{THINK} {thought}")
    return "\n".join(lines)


def read(text: str, card: Card, *, thinking: bool) -> Answer:
    """Return the thought and the answer in a reply.

    Without a labelled answer, it is what "the answer is …" says last, or else the first line.
    """
    reply = replies.read(text, frozenset())
    if reply.action and reply.form != "malformed":
        form: Form = "asked" if bool(reply.thought) == thinking else "loose"
        return Answer(reply.thought, unwrapped(reply.action, card), form)
    if answers := _SAID.findall(text[: replies.LONGEST_REPLY]):
        answer = answers[-1].strip().rstrip(".").rstrip()[: replies.LONGEST_ACTION]
        return Answer(reply.thought, unwrapped(answer, card), "loose")
    return Answer(reply.thought, unwrapped(reply.action, card), "malformed")


def unwrapped(answer: str, card: Card) -> str:
    """Return an answer without the action around it: "finish[Rome]" is "Rome"."""
    before, _, after = card.answer.partition(PLACE)
    whole = re.fullmatch(rf"(?i:{re.escape(before)})(.*){re.escape(after)}", answer, re.DOTALL)
    return whole[1].strip() if whole else answer


def counted(answers: Sequence[str]) -> list[int]:
    """Return the places of the answer that is given most often, of equals the one drawn first.

    Answers are the same where they differ in case, punctuation or articles only; an empty one
    counts for nothing, so the list is empty where all are.
    """
    places: dict[str, list[int]] = {}
    for place, answer in enumerate(answers):
        if answer.strip():
            places.setdefault(folded(answer), []).append(place)
    return max(places.values(), key=len, default=[])


def folded(answer: str) -> str:
    """Return what is compared of an answer: no capitals, punctuation, articles or extra blanks."""
    plain = "".join(
        char for char in answer.casefold() if not unicodedata.category(char).startswith("P")
    )
    words = " ".join(_ARTICLES.sub(" ", plain).split())
    return words or answer.casefold()

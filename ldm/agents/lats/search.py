"""One search: select, expand, evaluate, simulate, backpropagate, reflect (arXiv 2310.04406, §4.2).

Algorithm 1 of the paper, with what its text adds: the simulation goes on from the child with the
highest value, its nodes join the tree, and a success ends the search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ldm.agents import replies
from ldm.agents.executor import STOP, Hint, LoopOptions, examples
from ldm.agents.lats.tree import Node, backup, select
from ldm.agents.lats.walk import Walk
from ldm.agents.reflexion import reflect
from ldm.agents.transcript import View, ask, example_texts, transcript_text
from ldm.episode import NO_ACTION, Episode
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render, shortened
from ldm.types import Step, Trajectory

#: The highest score that a state is given.
TOP = 10
#: Characters of an observation in a failed attempt that later prompts show.
_EXCERPT = 120

_SCORE = re.compile(r"\bscore\W{0,5}(?:is\W{1,3})?(\d+(?:\.\d+)?)", re.IGNORECASE)
_OF_TEN = re.compile(rf"\b(\d+(?:\.\d+)?)\s*(?:/|(?:out )?of)\s*{TOP}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LatsOptions(LoopOptions):
    """budget: the depth of the tree, each step with its thought (Algorithm 1, L); None for the
    environment's published number, or 30. simulations: trajectories that are tried to their end at
    most (§5, k); None for the environment's published number, or 30. width: samples at each
    expansion (§4.2, n). exploration: weight of exploration in UCT (§4.2, w). lm_weight: weight of
    the model's score against that of self-consistency (§4.2, λ). temperature: sampling
    temperature of the samples (the authors' code); scores and reflections are greedy. lessons: how
    many of the latest failed attempts and reflections the prompts show (§4.2; 3 in the authors'
    code). reply: maximum tokens of a sample (ours). rating, reflection: maximum tokens of each
    (ours).
    """

    simulations: int | None = None
    width: int = 5
    exploration: float = 1.0
    lm_weight: float = 0.5
    temperature: float = 1.0
    lessons: int = 3
    reply: int = 200
    rating: int = 150
    reflection: int = 200

    def __post_init__(self) -> None:
        LoopOptions.__post_init__(self)
        if self.strength is not None:
            raise ValueError("strength is for executors that judge themselves: leave it out")
        if self.simulations is not None and self.simulations < 1:
            raise ValueError("simulations is 1 or more")
        for name in ("width", "rating", "reflection"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is 1 or more")
        if self.exploration < 0 or self.temperature < 0 or self.lessons < 0:
            raise ValueError("exploration, temperature and lessons are 0 or more")
        if not 0 <= self.lm_weight <= 1:
            raise ValueError("lm_weight is between 0 and 1")


@dataclass(frozen=True, slots=True)
class Failure:
    """A trajectory without success, what it earned, and what the model learnt from it."""

    steps: tuple[Step, ...]
    score: float
    lesson: str


@dataclass
class Search:
    """A search for one episode. `run` grows the tree below `root`.

    simulations: trajectories that were tried to their end.
    """

    episode: Episode
    llm: LLM
    options: LatsOptions
    walk: Walk
    root: Node = field(default_factory=Node)
    simulations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    demonstrations: Sequence[Trajectory] = ()

    def run(self, simulations: int) -> None:
        """Try up to `simulations` trajectories, until one succeeds or there is nothing left to try.

        Raises ReplayDivergence, and what a model call raises.
        """
        self.walk.begin(self.root)
        self.demonstrations = examples(self.episode, self.options)
        self._verbs = replies.verbs_of(self.episode.card, self.demonstrations)
        while self.simulations < simulations:
            leaf = select(self.root, self.options.exploration)
            if leaf is None:
                return
            end = self._simulate(leaf)
            self.simulations += 1
            backup(end, end.reward)
            if end.succeeded:
                return
            if self.simulations < simulations:
                self._learn(end)

    def _simulate(self, node: Node) -> Node:
        """Expand from `node` on, each time from the child of the highest value; return the end.

        A child that succeeds is the end at once.
        """
        while node.end is None:
            self._expand(node)
            *_, last = node.children
            node = last if last.succeeded else max(node.children, key=lambda child: child.value)
        return node

    def _expand(self, node: Node) -> None:
        """Sample steps from a leaf, take each of them, and evaluate where they lead.

        The first that succeeds is the last child, and none is evaluated: the search is over.
        """
        for child in self._proposed(node):
            self.walk.visit(child)
            node.children.append(child)
            if child.succeeded:
                return
        weight = self.options.lm_weight
        for child in node.children:
            child.rating = self._rated(child)
            child.value = weight * child.rating + (1 - weight) * child.share

    def _proposed(self, node: Node) -> list[Node]:
        """Return a child for each different action among the samples, with its share of them.

        Its thought is that of the sample drawn first.
        """
        samples = [self._sampled(node) for _ in range(self.options.width)]
        listed = self._listed(node)
        steps = [(one.thought, self.episode.card.listed(_action(one), listed)) for one in samples]
        # What tells steps apart is the action, or the thought where there is none.
        times = Counter(action or thought for thought, action in steps)
        firsts = {action or thought: (thought, action) for thought, action in reversed(steps)}
        return [
            Node(*firsts[step], parent=node, share=count / len(samples))
            for step, count in times.items()
        ]

    def _listed(self, node: Node) -> tuple[str, ...] | None:
        """Return the actions that are possible in a state, where the model is shown them."""
        return node.admissible if self.options.admissible else None

    def _sampled(self, node: Node) -> replies.Reply:
        options, episode = self.options, self.episode

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/lats/act",
                card=episode.card,
                demonstrations=example_texts(
                    self.demonstrations[: view.demonstrations], width=view.width, thoughts=True
                ),
                task=episode.goal,
                hints=self._hints(view),
                transcript=self._transcript(node, view),
                admissible=self._listed(node),
            )

        completion, _ = ask(
            self.llm,
            prompt,
            View(len(self.demonstrations), options.observation),
            len(node.path),
            sampling=Sampling(options.temperature),
            max_tokens=options.reply,
            stop=STOP,
        )
        reply = replies.read(completion.text, self._verbs)
        self.counts[reply.form] += 1
        self.counts["dropped"] += reply.dropped
        return reply

    def _rated(self, node: Node) -> float:
        """Return the model's score of a state, in [0, 1]: what was seen last is part of it."""
        episode, options = self.episode, self.options

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/lats/value",
                card=episode.card,
                task=episode.goal,
                hints=self._hints(view),
                transcript=self._transcript(node, view),
            )

        completion, _ = ask(
            self.llm,
            prompt,
            View(0, options.observation),
            len(node.path),
            max_tokens=options.rating,
        )
        score = score_in(completion.text)
        self.counts["unrated"] += score is None
        return score or 0.0

    def _learn(self, end: Node) -> None:
        """Reflect on a trajectory without success; it joins the prompts with what was learnt."""
        options = self.options
        tried = self.episode.trajectory(end.trial)
        lesson = reflect(
            self.episode, self.llm, tried, width=options.observation, tokens=options.reflection
        )
        self.episode.note("reflection", text=lesson, of=end.trial)
        self.failures.append(Failure(end.steps, end.reward, lesson))

    def _hints(self, view: View) -> tuple[Hint, ...]:
        """Return the failures as a hint; the lessons alone where all else is shortened already."""
        latest = self.failures[-self.options.lessons :] if self.options.lessons else []
        title = "Attempts at this task that failed, and what you learnt from each"
        with_steps = view.width >= self.options.observation
        texts = [_failed(number, one, with_steps) for number, one in enumerate(latest, 1)]
        return (Hint(title, "failed", "\n".join(texts)),) if latest else ()

    def _transcript(self, node: Node, view: View) -> str:
        return transcript_text(
            self.root.observation, node.steps, width=view.width, skipped=view.skipped
        )


def _action(reply: replies.Reply) -> str:
    """Return the action that a reply asks for; "" where it is a thought alone."""
    if reply.thought and not reply.action and reply.form != "malformed":
        return ""
    return reply.action or NO_ACTION


def score_in(reply: str) -> float | None:
    """Return the score that a reply gives, of 10, as a number in [0, 1]; None where it gives none.

    Of several the last counts.
    """
    for pattern in (_SCORE, _OF_TEN):
        if scores := pattern.findall(reply[: replies.LONGEST_REPLY]):
            return min(1.0, float(scores[-1]) / TOP)
    return None


def _failed(number: int, failure: Failure, with_steps: bool) -> str:
    """Return a failed attempt in a line a step, and its lesson."""
    lines = [f"Attempt {number}, score {failure.score:.2f} of 1:"]
    lines += [
        f"- {step.action}: {shortened(' '.join(step.observation.split()), _EXCERPT)}"
        for step in failure.steps
        if step.action and with_steps
    ]
    return "\n".join([*lines, f"Lesson: {failure.lesson}"] if failure.lesson else lines)

"""The search: select, expand, evaluate, simulate, backpropagate, reflect (arXiv 2310.04406, §4.2).

This is Algorithm 1 of the paper, with the additions of its text: the simulation continues from the
child with the highest value, its nodes join the tree, and a success ends the search.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ldm.agents import replies
from ldm.agents.executor import ExecutorOptions, examples
from ldm.agents.lats.tree import NOTE, Node, as_data, backup, select
from ldm.agents.lats.walk import Walk
from ldm.agents.loop import Hint, Loop, View, Work, ask
from ldm.agents.reflexion import reflect
from ldm.agents.replies import Reply, Verdict
from ldm.agents.transcript import transcript_text
from ldm.episode import Episode
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render, shortened
from ldm.types import Amount, Count, Positive, Score, Step

#: The maximum score of a state.
TOP = 10
#: Characters of an observation in a failed attempt that later prompts show.
_EXCERPT = 120

_SCORE = re.compile(r"\bscore\W{0,5}(?:is\W{1,3})?(\d+(?:\.\d+)?)", re.IGNORECASE)
_OF_TEN = re.compile(rf"\b(\d+(?:\.\d+)?)\s*(?:/|(?:out )?of)\s*{TOP}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LatsOptions(ExecutorOptions):
    """Options of LATS.

    budget: the depth of the tree, each step with its thought (Algorithm 1, L). simulations: §5, k.
    width, exploration and lm_weight: n, w and λ of §4.2. temperature, lessons: the authors' code;
    scores and reflections are greedy. The lengths are ours.
    """

    simulations: Annotated[Positive | None, "Maximum trajectories per task; none: as published"] = (
        None
    )
    width: Annotated[Positive, "Samples at each expansion"] = 5
    exploration: Annotated[Amount, "Weight of exploration in UCT"] = 1.0
    lm_weight: Annotated[Score, "Weight of the model's score against self-consistency"] = 0.5
    temperature: Annotated[Amount, "Sampling temperature of the samples"] = 1.0
    lessons: Annotated[Count, "Latest failed attempts and reflections that a prompt shows"] = 3
    reply: Annotated[Positive, "Maximum tokens of a sample"] = 200
    rating: Annotated[Positive, "Maximum tokens of a rating"] = 150
    reflection: Annotated[Positive, "Maximum tokens of a reflection"] = 200

    def __post_init__(self) -> None:
        if self.strength is not None:
            raise ValueError("strength is for executors that judge themselves: leave it out")


@dataclass(frozen=True, slots=True)
class Failure:
    """An unsuccessful trajectory, its reward, and the lesson that the model drew from it."""

    steps: tuple[Step, ...]
    score: float
    lesson: str


class Search(Loop):
    """A search for one episode, which grows the tree below `root`.

    Each move of the loop expands a node: `take` samples, takes and evaluates the steps from there,
    and goes on to the best child. simulations: trajectories tried to their end.
    """

    template = "agents/lats/act"
    joined = True

    def __init__(
        self, episode: Episode, llm: LLM, options: LatsOptions, walk: Walk, simulations: int
    ) -> None:
        """Prepare a search of up to `simulations` trajectories, which starts at the root."""
        sampling = Sampling(options.temperature)
        work = Work(episode.goal, examples(episode, options), sampling=sampling)
        super().__init__(episode, llm, work, options)
        self.lats = options
        self.walk = walk
        self.most = simulations
        self.simulations = 0
        self.failures: list[Failure] = []
        self.root = self.node = walk.root

    def ask(self) -> str:
        """Return a sample of a step from the node."""
        self.view = self.widest  # each sample begins with the widest view
        return super().ask()

    def hints(self, view: View) -> tuple[Hint, ...]:
        """Return the failures as a hint; only their lessons if all else is shortened already."""
        latest = self.failures[-self.lats.lessons :] if self.lats.lessons else []
        title = "Attempts at this task that failed, and what you learnt from each"
        with_steps = view.width >= self.options.observation
        texts = [_failed(number, one, with_steps) for number, one in enumerate(latest, 1)]
        return (Hint(title, "failed", "\n".join(texts)),) if latest else ()

    @property
    def admissible(self) -> tuple[str, ...] | None:
        """The actions that are possible at the node, if the model is shown them."""
        return self.node.admissible if self.lats.admissible else None

    def take(self, reply: Reply) -> None:
        """Take each sampled step, evaluate the resulting states, and continue at the best child.

        `reply` is the first sample. A child that succeeds is taken at once: the search is over.
        """
        samples = [reply, *(self.read(self.ask()) for _ in range(self.lats.width - 1))]
        for child in self._children(samples):
            self.walk.visit(child)
            self.node.children.append(child)
            if child.succeeded:
                return self._stand_at(child)
        weight = self.lats.lm_weight
        for child in self.node.children:
            child.rating = self._rated(child)
            child.value = weight * child.rating + (1 - weight) * child.share
        return self._stand_at(max(self.node.children, key=lambda child: child.value))

    def done(self, reply: Reply) -> Verdict:
        """At the end of a trajectory, learn from it and select the leaf to continue from.

        Return "completed" after a success and "failed" if nothing is left to try.
        """
        end = self.node
        if end.end is None:
            return ""
        self.simulations += 1
        backup(end, end.reward)
        if end.succeeded:
            return "completed"
        if self.simulations == self.most:
            return "failed"
        self._learn(end)
        leaf = select(self.root, self.lats.exploration)
        if leaf is None:
            return "failed"
        self._stand_at(leaf)
        return ""

    def note(self) -> None:
        self.view = self.widest
        super().note()
        self.episode.note(
            NOTE,
            simulations=self.simulations,
            replayed=self.walk.replayed,
            unrated=self.counts["unrated"],
            tree=as_data(self.root),
        )

    def _stand_at(self, node: Node) -> None:
        self.node, self.steps = node, list(node.steps)

    def _children(self, samples: Sequence[Reply]) -> list[Node]:
        """Return a child for each different action among the samples, with its share of them.

        Its thought is that of the sample drawn first. Steps without action differ by their thought.
        """
        card = self.episode.card
        steps = [(one.thought, card.listed(one.action, self.admissible)) for one in samples]
        times = Counter(action or thought for thought, action in steps)
        firsts = {action or thought: (thought, action) for thought, action in reversed(steps)}
        return [
            Node(*firsts[step], parent=self.node, share=count / len(samples))
            for step, count in times.items()
        ]

    def _rated(self, node: Node) -> float:
        """Return the model's score of a state and its last observation, in [0, 1]."""
        steps = node.steps

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/lats/value",
                card=self.episode.card,
                task=self.work.task,
                hints=self.hints(view),
                transcript=transcript_text(
                    self.opening, steps, width=view.width, skipped=view.skipped
                ),
            )

        widest = View(0, self.options.observation)
        completion, _ = ask(self.llm, prompt, widest, len(steps), max_tokens=self.lats.rating)
        score = score_in(completion.text)
        self.counts["unrated"] += score is None
        return score or 0.0

    def _learn(self, end: Node) -> None:
        """Reflect on a failed trajectory, which joins the prompts with its lesson."""
        options = self.lats
        tried = self.episode.trajectory(end.trial)
        card, width = self.episode.card, options.observation
        lesson = reflect(self.llm, card, tried, width=width, tokens=options.reflection)
        self.episode.note("reflection", text=lesson, of=end.trial)
        self.failures.append(Failure(end.steps, end.reward, lesson))


def score_in(reply: str) -> float | None:
    """Return the last score out of 10 in a reply, scaled to [0, 1], or None."""
    for pattern in (_SCORE, _OF_TEN):
        if scores := pattern.findall(reply[: replies.LONGEST_REPLY]):
            return min(1.0, float(scores[-1]) / TOP)
    return None


def _failed(number: int, failure: Failure, with_steps: bool) -> str:
    """Return a failed attempt with one line per step, and its lesson."""
    lines = [f"Attempt {number}, score {failure.score:.2f} of 1:"]
    lines += [
        f"- {step.action}: {shortened(' '.join(step.observation.split()), _EXCERPT)}"
        for step in failure.steps
        if step.action and with_steps
    ]
    return "\n".join([*lines, f"Lesson: {failure.lesson}"] if failure.lesson else lines)

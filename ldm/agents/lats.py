"""The search: select, expand, evaluate, simulate, backpropagate, reflect (arXiv 2310.04406, §4.2).

This is Algorithm 1 of the paper (Zhou et al.), with the additions of its text: the simulation
continues from the child with the highest value, its nodes join the tree, and a success ends the
search. LATS needs to go back to earlier states (§6). An agent has no copies of its environment: it
restarts the task and repeats the steps, which are counted like all others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, Any

from ldm.agents import replies
from ldm.agents.loop import ExecutorAgent, ExecutorOptions, Hint, Loop, View, Work, ask, examples
from ldm.agents.reflexion import reflect
from ldm.agents.replies import Reply, Verdict
from ldm.episode import FULL_SCORE, Episode, EpisodeOver
from ldm.llm import LLM, Message, Sampling
from ldm.prompts import render, shortened
from ldm.reporting import Branch, BranchState, Reporting, TaskTree, measure_of_note, noted
from ldm.types import Amount, Count, End, EpisodeResult, Positive, Score, Step, TimeStep

#: Kind of the note that holds a tree.
NOTE = "lats"
#: What a record holds of a node; estimates are rounded.
RECORDED = ("thought", "action", "visits", "valid", "end", "reward", "trial")
ESTIMATES = ("share", "rating", "value")


@dataclass(eq=False)
class Node:
    """A state of the task, and the step that leads to it: a thought and an action, or a thought.

    share: of the samples that proposed the step (the paper's SC). rating: the model's score of the
    state, in [0, 1] (its LM). value: V, from both at first and then also from the rewards of
    trajectories through it. visits: N, from 1, so that the first estimate counts like a trajectory.
    observation, valid, admissible: the result of the step. end: why no step follows; "" if one may.
    reward: of the trajectory up to here, if it ends here. trial: the one in which the step was
    first taken.
    """

    thought: str = ""
    action: str = ""
    parent: Node | None = field(default=None, repr=False)
    share: float = 0.0
    rating: float = 0.0
    value: float = 0.0
    visits: int = 1
    observation: str = ""
    valid: bool = True
    admissible: tuple[str, ...] | None = None
    end: End | None = None
    reward: float = 0.0
    trial: int = 0
    children: list[Node] = field(default_factory=list, repr=False)

    @property
    def path(self) -> tuple[Node, ...]:
        """The nodes from the root's child to this one."""
        path: list[Node] = []
        node = self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return tuple(reversed(path))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps on the path to this node, for prompts."""
        return tuple(
            Step(one.action, one.observation, thought=one.thought, valid=one.valid)
            for one in self.path
        )

    @property
    def succeeded(self) -> bool:
        return self.end is not None and self.reward >= FULL_SCORE

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


def as_data(root: Node) -> list[dict[str, Any]]:
    """Return the nodes of a tree as JSON values, for a note; `parent` is an index in the list.

    The trials hold the observations. It is a list because trees may be too deep to nest in JSON.
    """
    places: dict[Node | None, int | None] = {None: None}
    entries = []
    for place, node in enumerate(root.walk()):
        places[node] = place
        recorded = {name: getattr(node, name) for name in RECORDED}
        estimates = {name: round(getattr(node, name), 4) for name in ESTIMATES}
        entries.append({"parent": places[node.parent], **recorded, **estimates})
    return entries


def uct(node: Node, exploration: float) -> float:
    """Return V(s) + w · √(ln N(parent) / N(s)): the value of continuing from a child."""
    assert node.parent is not None  # noqa: S101 - the root is never chosen among siblings
    return node.value + exploration * math.sqrt(math.log(node.parent.visits) / node.visits)


def select(root: Node, exploration: float) -> Node | None:
    """Return the leaf to continue from: from the root down, always the child with the greatest UCT.

    Of equal children the first is taken. Nodes below which all trajectories have ended are skipped,
    since the same steps would give the same results; return None if no other node is left.
    """
    left = unfinished(root)
    if root not in left:
        return None
    node = root
    while node.children:
        children = (child for child in node.children if child in left)
        node = max(children, key=lambda child: uct(child, exploration))
    return node


def unfinished(root: Node) -> set[Node]:
    """Return the nodes on trajectories that have not ended."""
    left: set[Node] = set()
    for node in reversed(list(root.walk())):  # children before their parents
        if node.end is None and (not node.children or not left.isdisjoint(node.children)):
            left.add(node)
    return left


def backup(node: Node, reward: float) -> None:
    """Count a trajectory that ended at `node`, there and in all nodes above it."""
    at: Node | None = node
    while at is not None:
        at.visits += 1
        at.value = (at.value * (at.visits - 1) + reward) / at.visits
        at = at.parent


def best(root: Node) -> Node | None:
    """Return the end of the trajectory that earned most, the earliest of equals; None without any.

    Earliest: by the trial in which it ended.
    """
    ends = [node for node in root.walk() if node.end is not None]
    return min(ends, key=lambda node: (-node.reward, node.trial), default=None)


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = noted(result, NOTE)
    if data is None:
        return None
    branches = tuple(_branches(data["tree"]))
    nodes, depth = len(branches) - 1, max(one.depth for one in branches)
    tried = data["simulations"]
    columns = {"simulations": str(tried), "nodes": str(nodes), "depth": str(depth)}
    headline = f"{tried} simulations, {nodes} nodes, depth {depth}"
    return TaskTree(columns, headline, branches, paths=True)


def _branches(tree: Sequence[Mapping[str, Any]]) -> Iterator[Branch]:
    """Yield the tree for reports; `tree` lists each node before those below it."""
    depths: list[int] = []
    for node in tree:
        depths.append(0 if node["parent"] is None else depths[node["parent"]] + 1)
        state: BranchState = "" if not node["end"] else "done" if node["reward"] >= 1 else "failed"
        figures = {"value": f"{node['value']:.2f}", "visits": str(node["visits"])}
        if node["end"]:
            figures["reward"] = f"{node['reward']:.2f}"
        text = node["action"] or ("(thought)" if node["thought"] else "the task")
        texts = {"thought": node["thought"]} if node["thought"] else {}
        state, words = (state, node["end"] or "") if node["valid"] else ("failed", "invalid")
        yield Branch(depths[-1], text, state, words, figures, texts=texts)


REPORTING = Reporting(
    (
        measure_of_note(
            "simulations", "trajectories tried to their end", NOTE, itemgetter("simulations")
        ),
        measure_of_note("nodes", "nodes of the tree", NOTE, lambda data: len(data["tree"]) - 1),
        measure_of_note(
            "replayed", "steps that only led back to a state", NOTE, itemgetter("replayed")
        ),
    ),
    tree=_tree,
)


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


class Search(Loop):
    """A search for one episode, which grows the tree below `root`, in successive trials.

    Each move of the loop expands a node: `take` samples, takes and evaluates the steps from there,
    and goes on to the best child. trials: holds the running trial. simulations: trajectories tried
    to their end. replayed: steps that only led back to known nodes. failures: the ends of
    unsuccessful trajectories, with the lessons that the model drew from them.
    """

    template = "agents/lats/act"
    joined = True

    def __init__(
        self, episode: Episode, llm: LLM, options: LatsOptions, trials: ExitStack, simulations: int
    ) -> None:
        """Start the task, and prepare a search of up to `simulations` trajectories."""
        now = trials.enter_context(episode.trial())
        sampling = Sampling(options.temperature)
        work = Work(episode.goal, examples(episode, options), sampling=sampling)
        super().__init__(episode, llm, work, options)
        self.lats = options
        self.trials = trials
        self.most = simulations
        self.simulations = self.replayed = 0
        self.failures: list[tuple[Node, str]] = []
        self.root = self.node = self.at = Node(admissible=now.admissible)

    def ask(self) -> str:
        """Return a sample of a step from the node."""
        self.view = self.widest  # each sample begins with the widest view
        return super().ask()

    def hints(self, view: View) -> tuple[Hint, ...]:
        """Return the failures as a hint; only their lessons if all else is shortened already."""
        latest = self.failures[-self.lats.lessons :] if self.lats.lessons else []
        title = "Attempts at this task that failed, and what you learnt from each"
        with_steps = view.width >= self.options.observation
        texts = [_failed(number, *one, with_steps) for number, one in enumerate(latest, 1)]
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
            self._visit(child)
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
            replayed=self.replayed,
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
                transcript=view.transcript(self.opening, steps),
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
        self.failures.append((end, lesson))

    def _visit(self, node: Node) -> None:
        """Take the step that leads to `node` for the first time, and record its outcome there.

        Another state than its parent is left first: the task is restarted, and the steps to the
        parent are repeated. Raise ReplayDivergence if that gives other observations.
        """
        episode, parent = self.episode, node.parent
        assert parent is not None  # noqa: S101 - the root is never visited
        if self.at is not parent:
            self.trials.close()
            self.trials.enter_context(episode.trial())
            episode.repeat(self.opening, parent.steps)
            self.replayed += len(parent.steps)
        self.at, node.trial = node, episode.trials - 1
        try:
            act = partial(episode.act, node.action) if node.action else episode.think
            now = act(thought=node.thought)
        except EpisodeOver as over:
            self.trials.__exit__(type(over), over, over.__traceback__)
            done = episode.trajectory(node.trial)
            node.end, node.reward = over.end, done.score
            now = TimeStep(done.steps[-1].observation, valid=done.steps[-1].valid)
        node.valid, node.admissible = now.valid, now.admissible
        node.observation = now.observation if node.action else ""


def score_in(reply: str) -> float | None:
    """Return the last score out of 10 in a reply, scaled to [0, 1], or None."""
    for pattern in (_SCORE, _OF_TEN):
        if scores := pattern.findall(reply[: replies.LONGEST_REPLY]):
            return min(1.0, float(scores[-1]) / TOP)
    return None


def _failed(number: int, end: Node, lesson: str, with_steps: bool) -> str:
    """Return a failed attempt with one line per step, and its lesson."""
    lines = [f"Attempt {number}, score {end.reward:.2f} of 1:"]
    lines += [
        f"- {step.action}: {shortened(' '.join(step.observation.split()), _EXCERPT)}"
        for step in end.steps
        if step.action and with_steps
    ]
    return "\n".join([*lines, f"Lesson: {lesson}"] if lesson else lines)


#: Trajectories if the environment's card has no published number.
SIMULATIONS = 30


class LatsAgent(ExecutorAgent):
    """Searches a tree of steps with the model's values, and learns from failed trajectories."""

    name = "lats"
    sees_reward = True
    paper = "LATS, arXiv 2310.04406, §4.2; in ADaPT, arXiv 2311.05772, Table 3"
    reporting = REPORTING
    Options = LatsOptions
    options: LatsOptions
    #: The depth of the tree.
    default_budget = 30

    def solve(self, episode: Episode) -> None:
        """Search, and submit the first of the trajectories with the highest score.

        Every return to a state is a new trial that repeats the steps to it.
        """
        simulations = self.setting(episode.card, "simulations", SIMULATIONS)
        llm = self._resources.model(episode)
        with ExitStack() as trials:
            search = Search(episode, llm, self.options, trials, simulations)
            search.run()
        if (end := best(search.root)) is not None:
            episode.submit(end.trial)

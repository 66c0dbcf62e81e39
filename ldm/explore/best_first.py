"""Best-first search of decision processes: deviate once more from the memory's own decisions.

Every decision process consists of the memory's greedy decisions, except for some deviations. The
cheapest untried deviation is next (limited discrepancy search: Harvey and Ginsberg, IJCAI 1995).
Actions that the votes favour or that name words of the goal are cheap. States that look the same,
with the same observed before, are searched once, and a process that sees nothing new for a while
has to wait.

A memory of few episodes lacks votes for many necessary actions, and decisions cost far more than
steps. So half of the steps look round without deciding: in each *stage* every possible action is
tried once, at the node where it first became possible, and after each advance the memory's
decisions are followed again.

Some actions are possible from the start, such as going somewhere; others have to be made possible.
An *advance* is one of the latter that names a word of the goal: taking, heating or putting down
what it asks for. The advances of a process are its *stage*. Its other actions only led there, so a
stage is surveyed once, from the node where it was first entered, and each action is tried once in
it: novelty pruning as in iterated width (Lipovetzky and Geffner, ECAI 2012), restarted after every
advance.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ldm.episode import FULL_SCORE
from ldm.explore import tree
from ldm.explore.tree import Decide, Position, Positions, TreeNode, TreeOptions
from ldm.reason.reading import FUNCTION_WORDS
from ldm.types import TimeStep

_WORD = re.compile(r"\w+")


@dataclass(slots=True, eq=False)
class Stage:
    """A stage, and the actions tried in it.

    advances: see above. depth, cost: of its entry. queued: the actions of its
    survey, tried or not. states: hashes of the states that the survey has reached.
    """

    advances: frozenset[str]
    depth: int
    cost: float
    queued: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)


class Experience:
    """Statistics of a search on actions: the words that they name, and how much they reveal.

    A verb is the first word of an action.
    """

    def __init__(self, goal: str, opening: Iterable[str]) -> None:
        """Start a search for a goal. opening: the actions possible at the start."""
        self._goal = words(goal)
        self._opening = frozenset(opening)
        self._actions: set[str] = set()
        self._naming: Counter[str] = Counter()
        self._pairs: set[tuple[str, str]] = set()
        self._steps: Counter[str] = Counter()
        self._revealing: Counter[str] = Counter()

    def add(self, action: str, now: TimeStep) -> None:
        """Record the result of an action; "" for the opening.

        It was revealing if it made a new action possible and its observation has a new pair of
        adjacent words.
        """
        new = [a for a in now.admissible or () if a not in self._actions]
        for each in new:
            self._naming.update(words(each) & self._goal)
        self._actions.update(new)
        tokens = _WORD.findall(now.observation.lower())
        pairs = {pair for pair in zip(tokens, tokens[1:], strict=False) if pair not in self._pairs}
        self._pairs |= pairs
        self._steps[_verb(action)] += 1
        self._revealing[_verb(action)] += bool(new and pairs)

    def advances(self, action: str) -> bool:
        """Return whether an action is an advance, judged by the words after its verb."""
        return action not in self._opening and not self._goal.isdisjoint(
            words(action.partition(" ")[2])
        )

    def named(self, actions: Sequence[str]) -> list[float]:
        """Return the number of goal words that each of n actions names, weighted by rarity.

        A word that only one of all actions possible so far has counts 1; one that all have counts
        0.
        """
        count = len(self._actions)
        most = math.log(count) if count > 1 else 1.0
        return [
            math.fsum(
                math.log(count / self._naming[word]) / most
                for word in words(action) & self._goal
                if self._naming[word]
            )
            for action in actions
        ]

    def barren(self, action: str) -> float:
        """Return the penalty of this verb: 0 if all its steps were revealing, log₂ n if 1 of n."""
        verb = _verb(action)
        return math.log2((1 + self._steps[verb]) / (1 + self._revealing[verb]))


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case, without function words."""
    return frozenset(_WORD.findall(text.lower())) - FUNCTION_WORDS


def _verb(action: str) -> str:
    return action.partition(" ")[0]


#: The cost of a deviation without evidence from votes or goal, and the least cost.
DEVIATION, LEAST = 1.0, 0.5
#: The most that opposing votes add; actions without votes cost that much more.
AGAINST = 2.0
#: The discount for every word of the goal that it alone names.
GOAL_WORD = 1.5
#: The surcharge for every time that the same action was tried in this search.
TRIED_AGAIN = 1.0
#: Steps without a new observation after which a process waits, and the cost to go on.
PATIENCE, GOING_ON = 5, 2.0
#: The cost of looking round in a stage, and of each step away from where the stage begins.
SURVEY, AWAY = 0.25, 0.05
#: The discount for trying an action that names a word of the goal.
GOAL_WORD_NEARBY = 0.3
#: The cost of an advance that was not decided on.
UNASKED = 2.0
#: The surcharge for a verb that reveals little.
BARREN = 0.5


@dataclass(slots=True, eq=False)
class _Reached:
    """A node that was reached. children: by action. votes: of the memory, None until it decided."""

    node: TreeNode
    position: Position
    stage: Stage
    children: dict[str, _Reached] = field(default_factory=dict)
    votes: dict[str, float] | None = None

    def followed(self, action: str) -> bool:
        """Return whether the memory has decided after this action."""
        child = self.children.get(action)
        return child is not None and child.votes is not None


@dataclass(order=True, slots=True)
class _Open:
    """An entry of a queue, cheapest first.

    order: breaks ties. at: to start from. what: "follow" the memory's decisions; queue the
    "deviations" from them, or "deviate" by `action`; "survey" queues all possible actions, "try"
    takes `action`. base: the cost without surcharges.
    """

    cost: float
    order: int = field(init=False, default=0)
    at: _Reached = field(compare=False)
    what: Literal["follow", "deviations", "deviate", "survey", "try"] = field(compare=False)
    action: str = field(compare=False, default="")
    confidence: float = field(compare=False, default=0.0)
    base: float = field(compare=False, default=0.0)


#: Entries that look round; the others deviate. The two sorts alternate, as it depends on the memory
#: which of them finds more.
SURVEYS = frozenset({"survey", "try"})


class Search:
    """One search of decision processes."""

    def __init__(
        self, positions: Positions, goal: str, decide: Decide, options: TreeOptions
    ) -> None:
        """Start the task.

        decide: returns the greedy decision in a position, then its alternatives, with confidences.
        """
        self._positions = positions
        self._decide = decide
        self._options = options
        self._start = positions.start()
        self._experience = Experience(goal, self._start.now.admissible or ())
        self._reached: list[_Reached] = []
        # Of deviations and of surveys, with the steps spent on each.
        self._queues: tuple[list[_Open], list[_Open]] = ([], [])
        self._spent = [0, 0]
        self._states: set[str] = set()
        self._observations: set[str] = set()
        self._tried: Counter[str] = Counter()
        self._stages: dict[frozenset[str], Stage] = {}
        self._pushed = 0
        self._solved = False

    def run(self) -> tuple[TreeNode, ...]:
        """Return the nodes of all processes tried, by number; a child comes after its parent.

        The search ends with the first full score, or when `options.budget` steps are spent.
        Raise the errors of the environment and of `decide`, and ReplayDivergence.
        """
        do: Mapping[str, Callable[[_Open], None]] = {
            "follow": lambda entry: self._follow(entry.at, entry.cost),
            "deviations": self._queue_deviations,
            "deviate": self._deviate,
            "survey": lambda entry: self._queue_survey(entry.at),
            "try": self._try,
        }
        self._follow(self._enter(tree.opening(self._start), self._start, 0.0), 0.0)
        while any(self._queues) and not self._over():
            behind = int(self._spent[1] < self._spent[0])
            turn = behind if self._queues[behind] else 1 - behind
            entry, before = heapq.heappop(self._queues[turn]), self._positions.steps
            do[entry.what](entry)
            self._spent[turn] += self._positions.steps - before
        return tree.ended([one.node for one in self._reached])

    def _over(self) -> bool:
        return self._solved or self._positions.steps >= self._options.budget

    def _follow(self, at: _Reached, cost: float) -> None:
        """Continue greedily from a node until the process ends or sees nothing new for a while."""
        patience = PATIENCE
        while at.node.fate == "grown" and not self._over():
            if not patience:
                self._push(_Open(cost + GOING_ON, at, "follow"))
                return
            decision = self._decide(at.position)
            if at.votes is None:
                self._push(_Open(cost, at, "deviations"))
            at.votes = {p.action: p.confidence for p in decision.proposals}
            best = decision.proposals[0]
            if at.followed(best.action):
                return
            if (after := at.children.get(best.action)) is None:
                known = len(self._observations)
                after = self._take(at, best.action, best.confidence, cost)
                patience = PATIENCE if len(self._observations) > known else patience - 1
            at = after

    def _queue_deviations(self, entry: _Open) -> None:
        """Queue the deviations that are possible at a node."""
        votes = entry.at.votes or {}
        actions = list(dict.fromkeys([*votes, *(entry.at.position.now.admissible or ())]))
        for action, named in zip(actions, self._experience.named(actions), strict=True):
            if not entry.at.followed(action):
                price = DEVIATION + _against(votes, action) - GOAL_WORD * named
                base = entry.cost + max(LEAST, price)
                first = base + TRIED_AGAIN * self._tried[action]
                confidence = votes.get(action, 0.0)
                self._push(_Open(first, entry.at, "deviate", action, confidence, base))

    def _deviate(self, entry: _Open) -> None:
        """Try a deviation, unless its cost has risen meanwhile."""
        if entry.at.followed(entry.action):
            return
        if self._postponed(entry, entry.base + TRIED_AGAIN * self._tried[entry.action]):
            return
        self._tried[entry.action] += 1
        after = entry.at.children.get(entry.action)
        if after is None:
            after = self._take(entry.at, entry.action, entry.confidence, entry.base)
        self._follow(after, entry.base)

    def _queue_survey(self, at: _Reached) -> None:
        """Queue the actions at a node that are new to its stage."""
        stage, possible = at.stage, at.position.now.admissible or ()
        actions = [action for action in possible if action not in stage.queued]
        stage.queued.update(actions)
        for action, named in zip(actions, self._experience.named(actions), strict=True):
            if self._experience.advances(action):
                base = stage.cost + max(LEAST, UNASKED - GOAL_WORD * named)
            else:
                away = AWAY * (at.node.depth - stage.depth)
                base = stage.cost + SURVEY + away - GOAL_WORD_NEARBY * named
            self._push(_Open(self._price(action, base), at, "try", action, 0.0, base))

    def _price(self, action: str, base: float) -> float:
        """Return the present cost of trying an action in a survey."""
        if self._experience.advances(action):
            return base + TRIED_AGAIN * self._tried[action]
        return base + BARREN * self._experience.barren(action)

    def _try(self, entry: _Open) -> None:
        """Try an action of a survey, unless its cost has risen.

        After an advance follow the memory's decisions; otherwise continue the survey.
        """
        stage, action = entry.at.stage, entry.action
        if action in entry.at.children or self._postponed(entry, self._price(action, entry.base)):
            return
        after = self._take(entry.at, action, 0.0, entry.base)
        if self._experience.advances(action):
            self._tried[action] += 1
            self._follow(after, entry.base)
        elif after.node.fate == "grown" and after.position.state not in stage.states:
            stage.states.add(after.position.state)
            self._queue_survey(after)

    def _take(self, parent: _Reached, action: str, confidence: float, cost: float) -> _Reached:
        """Execute an action in the state of a node; return the new node."""
        position = self._positions.after(parent.position, action)
        node = tree.child(parent.node, len(self._reached), action, confidence)
        after = parent.children[action] = self._enter(node, position, cost, parent.stage)
        return after

    def _enter(
        self, node: TreeNode, position: Position, cost: float, before: Stage | None = None
    ) -> _Reached:
        """Record a node that was reached from a stage. A new stage is surveyed."""
        state, node = position.situation, tree.entered(node, position)
        if node.fate == "grown" and node.depth >= self._options.depth:
            node = replace(node, fate="depth")
        if node.fate in ("grown", "depth") and state in self._states:
            node = replace(node, fate="merged")
        self._states.add(state)
        self._observations.add(position.now.observation)
        self._experience.add(node.action, position.now)
        self._solved |= node.fate == "done" and node.score >= FULL_SCORE
        advances = before.advances if before else frozenset[str]()
        if before and position.now.valid and self._experience.advances(node.action):
            advances |= {node.action}
        stage = self._stages.get(advances)
        is_new = stage is None and node.fate == "grown"
        stage = stage or Stage(advances, node.depth, cost, states={position.state})
        self._reached.append(reached := _Reached(node, position, stage))
        if is_new:
            self._stages[advances] = stage
            self._push(_Open(cost + SURVEY, reached, "survey"))
        return reached

    def _postponed(self, entry: _Open, cost: float) -> bool:
        """Queue an entry again if its cost has risen; return whether it has."""
        cost = round(cost, 9)
        if cost <= entry.cost:
            return False
        entry.cost = cost
        self._push(entry)
        return True

    def _push(self, entry: _Open) -> None:
        self._pushed += 1
        entry.cost, entry.order = round(entry.cost, 9), self._pushed
        heapq.heappush(self._queues[entry.what in SURVEYS], entry)


def _against(votes: Mapping[str, float], action: str) -> float:
    """Return how far the votes oppose an action: the logarithm of the odds, bounded."""
    if not votes.get(action):
        return AGAINST
    return min(AGAINST, math.log(max(votes.values()) / votes[action]))

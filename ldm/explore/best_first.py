"""Best-first search of decision processes: deviate once more from what the memory would do.

Every decision process is the memory's own but for some deviations, each of which is followed by
the memory's greedy decisions. The cheapest deviation that is left is tried next (limited
discrepancy search: Harvey and Ginsberg, IJCAI 1995). What the votes favour and what names the
goal's words is cheap; actions without any vote are possible, too, as a memory of few episodes has
none for much that is needed. States that look the same, with the same observed before, are searched
once, and a process that sees nothing new for a while has to wait.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ldm.episode import FULL_SCORE
from ldm.explore.positions import Position, Positions
from ldm.explore.tree import (
    Decide,
    TreeNode,
    TreeOptions,
    child,
    decided,
    ended,
    entered,
    opening,
)
from ldm.types import stable_hash

#: What a deviation costs where votes and goal say nothing, and what it costs at least.
DEVIATION, LEAST = 1.0, 0.5
#: What it costs more where the votes are against it, at most; actions without votes cost that.
AGAINST = 2.0
#: What it costs less for every word of the goal that it alone names.
GOAL_WORD = 1.5
#: What it costs more for every time that the same was tried in this search.
TRIED_AGAIN = 1.0
#: Steps without a new observation after which a process waits, and what it costs to go on.
PATIENCE, GOING_ON = 5, 2.0


def search(
    positions: Positions, goal: str, decide: Decide, options: TreeOptions
) -> tuple[TreeNode, ...]:
    """Return the nodes of all processes that were tried, by number; a child after its parent.

    decide: the greedy decision in a position first, then its alternatives, with confidences.
    The search is over with the first full score, and when `options.budget` steps are spent.
    Raises what the environment and `decide` raise, and ReplayDivergence.
    """
    return _Search(positions, goal, decide, options).run()


@dataclass(order=True, slots=True)
class _Open:
    """Something left to do, cheapest first.

    order: breaks ties. node: where. action: the deviation to try; "" to find the deviations, or
    with `follow` to go on greedily. base: the cost, but for repetitions of the same action.
    """

    cost: float
    order: int
    node: int = field(compare=False)
    action: str = field(compare=False, default="")
    confidence: float = field(compare=False, default=0.0)
    base: float = field(compare=False, default=0.0)
    follow: bool = field(compare=False, default=False)


class _Search:
    """One search; see `search`."""

    def __init__(
        self, positions: Positions, goal: str, decide: Decide, options: TreeOptions
    ) -> None:
        self._positions = positions
        self._goal = _words(goal)
        self._decide = decide
        self._options = options
        self._nodes: list[TreeNode] = []
        self._at: list[Position] = []
        self._children: list[set[str]] = []
        self._votes: dict[int, dict[str, float]] = {}
        self._queue: list[_Open] = []
        self._states: set[str] = set()
        self._observations: set[str] = set()
        self._tried: Counter[str] = Counter()
        self._pushed = 0
        self._solved = False

    def run(self) -> tuple[TreeNode, ...]:
        """Search until it is solved or the budget is spent."""
        start = self._positions.start()
        self._enter(opening(start), start)
        self._follow(0, 0.0)
        while self._queue and not self._over():
            best = heapq.heappop(self._queue)
            if best.follow:
                self._follow(best.node, best.cost)
            elif not best.action:
                self._expand(best.node, best.cost)
            elif best.action not in self._children[best.node]:
                self._deviate(best)
        return ended(self._nodes)

    def _over(self) -> bool:
        return self._solved or self._positions.steps >= self._options.budget

    def _deviate(self, best: _Open) -> None:
        """Try a deviation, unless it has become dearer meanwhile."""
        cost = round(best.base + TRIED_AGAIN * self._tried[best.action], 9)
        if cost > best.cost:
            self._push(replace(best, cost=cost))
            return
        self._tried[best.action] += 1
        self._follow(self._take(best.node, best.action, best.confidence), best.base)

    def _follow(self, number: int, cost: float) -> None:
        """Go on greedily from a node, until the process ends or sees nothing new for a while."""
        patience = PATIENCE
        while self._nodes[number].fate == "grown" and not self._over():
            if not patience:
                self._push(_Open(cost + GOING_ON, 0, number, follow=True))
                return
            decision = self._decide(self._at[number])
            self._nodes[number] = decided(self._nodes[number], decision)
            if number not in self._votes:
                self._push(_Open(cost, 0, number))
            self._votes[number] = {p.action: p.confidence for p in decision.proposals}
            best = decision.proposals[0]
            if best.action in self._children[number]:
                return
            known = len(self._observations)
            number = self._take(number, best.action, best.confidence)
            patience = PATIENCE if len(self._observations) > known else patience - 1

    def _expand(self, number: int, cost: float) -> None:
        """Add the deviations that are possible at a node to the queue."""
        votes = self._votes[number]
        actions = list(dict.fromkeys([*votes, *(self._at[number].now.admissible or ())]))
        named = _named(self._goal, actions)
        for action, words in zip(actions, named, strict=True):
            if action not in self._children[number]:
                price = DEVIATION + _against(votes, action) - GOAL_WORD * words
                base = round(cost + max(LEAST, price), 9)
                first = round(base + TRIED_AGAIN * self._tried[action], 9)
                self._push(_Open(first, 0, number, action, votes.get(action, 0.0), base))

    def _take(self, parent: int, action: str, confidence: float) -> int:
        """Execute an action in the state of a node; return the number of the new node."""
        position = self._positions.after(self._at[parent], action)
        self._children[parent].add(action)
        return self._enter(
            child(self._nodes[parent], len(self._nodes), action, confidence), position
        )

    def _enter(self, node: TreeNode, position: Position) -> int:
        """Record a node that was reached, and whether the search goes on from there."""
        state, node = _state(position), entered(node, position, self._options.depth)
        if node.fate in ("grown", "depth") and state in self._states:
            node = replace(node, fate="merged")
        self._states.add(state)
        self._observations.add(position.now.observation)
        self._nodes.append(node)
        self._at.append(position)
        self._children.append(set())
        self._solved |= node.fate == "done" and node.score >= FULL_SCORE
        return node.number

    def _push(self, entry: _Open) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, replace(entry, order=self._pushed))


def _against(votes: Mapping[str, float], action: str) -> float:
    """Return how much the votes are against an action: the logarithm of the odds, bounded."""
    if not votes.get(action):
        return AGAINST
    return min(AGAINST, math.log(max(votes.values()) / votes[action]))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _named(goal: frozenset[str], actions: Sequence[str]) -> list[float]:
    """Return how much of the goal each of n actions names, in words.

    A word that one action alone has counts 1, and one that all have counts nothing.
    """
    words = [_words(action) & goal for action in actions]
    counts = Counter(word for some in words for word in some)
    most = math.log(len(actions)) or 1.0 if actions else 1.0
    return [math.fsum(math.log(len(actions) / counts[w]) / most for w in some) for some in words]


def _state(position: Position) -> str:
    """Return a hash that is equal for states that look the same, with the same observed before.

    What was observed counts, not in which order: it is what decisions rest on, and it tells states
    apart that look the same (a cold egg and a hot one, out of sight).
    """
    before = sorted({observation for observation, _ in position.past})
    return stable_hash(position.state, round(position.score, 9), before)

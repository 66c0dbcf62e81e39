"""Rollouts: decision processes drawn at random from the votes of the recalls."""

from __future__ import annotations

import random
from dataclasses import replace

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
from ldm.types import Proposal

#: Actions are drawn in proportion to their confidence to this power: below 1, the less likely ones
#: are drawn more often than the votes say.
POWER = 0.7
#: Rollouts in a row without a new state after which nothing new is expected.
REPEATED = 20


def draw(
    positions: Positions, propose: Decide, options: TreeOptions, seed: int
) -> tuple[TreeNode, ...]:
    """Return the nodes of all rollouts, by number; a child after its parent.

    propose: the actions in a position, with confidences.
    Over with the first full score, and when `options.budget` steps are spent.
    Raises what the environment and `propose` raise, and ReplayDivergence.
    """
    return _Rollouts(positions, propose, options, seed).run()


class _Rollouts:
    """Draws processes; those with the same beginning share its nodes."""

    def __init__(
        self, positions: Positions, propose: Decide, options: TreeOptions, seed: int
    ) -> None:
        self._positions = positions
        self._propose = propose
        self._options = options
        self._generator = random.Random(seed)
        self._nodes: list[TreeNode] = []
        self._at: list[Position] = []
        self._children: list[dict[str, int]] = []
        self._proposals: dict[int, list[Proposal]] = {}

    def run(self) -> tuple[TreeNode, ...]:
        """Draw processes until one has the full score or the budget is spent."""
        start = self._positions.start()
        self._enter(opening(start), start)
        repeated = 0
        while repeated < REPEATED and self._positions.steps < self._options.budget:
            steps = self._positions.steps
            end = self._nodes[self._roll_out()]
            if end.fate == "done" and end.score >= FULL_SCORE:
                break
            repeated = repeated + 1 if self._positions.steps == steps else 0
        return ended(self._nodes)

    def _roll_out(self) -> int:
        """Draw one process; return the number of its last node."""
        number = 0
        while self._nodes[number].fate == "grown":
            proposals = self._possible(number)
            if not proposals:
                self._nodes[number] = replace(self._nodes[number], fate="dead end")
                break
            weights = [max(proposal.confidence, 1e-6) ** POWER for proposal in proposals]
            [drawn] = self._generator.choices(proposals, weights)
            following = self._children[number].get(drawn.action)
            if following is None:
                if self._positions.steps >= self._options.budget:
                    break
                following = self._take(number, drawn)
            if self._nodes[following].fate != "invalid":
                number = following
        return number

    def _possible(self, number: int) -> list[Proposal]:
        """Return the proposals in the state of a node, but those that the environment refused."""
        if number not in self._proposals:
            decision = self._propose(self._at[number])
            self._nodes[number] = decided(self._nodes[number], decision)
            self._proposals[number] = list(decision.proposals)
        children = self._children[number]
        return [
            proposal
            for proposal in self._proposals[number]
            if proposal.action not in children
            or self._nodes[children[proposal.action]].fate != "invalid"
        ]

    def _take(self, parent: int, drawn: Proposal) -> int:
        position = self._positions.after(self._at[parent], drawn.action)
        number = len(self._nodes)
        self._children[parent][drawn.action] = number
        node = child(self._nodes[parent], number, drawn.action, drawn.confidence)
        return self._enter(node, position)

    def _enter(self, node: TreeNode, position: Position) -> int:
        self._nodes.append(entered(node, position, self._options.depth))
        self._at.append(position)
        self._children.append({})
        return node.number

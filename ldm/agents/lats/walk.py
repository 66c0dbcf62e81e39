"""The search's moves in the environment: forward, or from the start of the task again.

LATS needs to go back to earlier states (arXiv 2310.04406, §6). An agent has no copies of its
environment: it restarts the task and repeats the steps, which are counted like all others.
"""

from __future__ import annotations

from contextlib import ExitStack

from ldm.agents.lats.tree import Node
from ldm.episode import Episode, EpisodeOver
from ldm.types import End, Step, TimeStep


class Walk(ExitStack):
    """A walk through a tree from its root, in successive trials; leaving it ends the last one.

    replayed: the number of steps that only led back to known nodes.
    """

    def __init__(self, episode: Episode) -> None:
        super().__init__()
        self.root = Node()
        self.replayed = 0
        self._episode = episode
        self._at: Node | None = None

    def __enter__(self) -> Walk:
        """Start the task, and record its opening in the root."""
        now = self._start()
        self.root.observation, self.root.admissible = now.observation, now.admissible
        self._at = self.root
        return self

    def visit(self, node: Node) -> None:
        """Take the step that leads to `node` for the first time, and record its outcome there.

        Raise ReplayDivergence if repeating the path to its parent gives other observations.
        """
        parent = node.parent
        assert parent is not None  # noqa: S101 - the root is never visited
        if self._at is not parent:
            self._return_to(parent)
        node.trial = self._episode.trials - 1
        now, node.end = self._take(node)
        node.valid, node.admissible = now.valid, now.admissible
        node.observation = now.observation if node.action else ""
        if node.end is not None:
            node.reward = self._episode.trajectory(node.trial).score

    def _start(self) -> TimeStep:
        self.close()
        return self.enter_context(self._episode.trial())

    def _return_to(self, target: Node) -> None:
        """Restart the task and repeat the steps to `target`; compare every observation."""
        self._at = None
        self._start()
        way = [Step(one.action, one.observation, thought=one.thought) for one in target.path]
        self._episode.repeat(self.root.observation, way)
        self.replayed += len(way)

    def _take(self, node: Node) -> tuple[TimeStep, End | None]:
        """Take the step to a node from its parent; return the answer, and how it ended, if so."""
        episode = self._episode
        try:
            if node.action:
                now = episode.act(node.action, thought=node.thought)
            else:
                now = episode.think(node.thought)
        except EpisodeOver as over:
            self._at = None
            self.__exit__(type(over), over, over.__traceback__)
            last = episode.trajectory(episode.trials - 1).steps[-1]
            return TimeStep(last.observation, valid=last.valid), over.end
        self._at = node
        return now, None

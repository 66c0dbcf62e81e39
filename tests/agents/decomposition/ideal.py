"""Ideal models for agents that divide: they know what they can do, and how to divide the rest."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.agents import Resources, load_agent
from ldm.agents.decomposition.controller import Node, tree_of
from ldm.episode import Environment
from ldm.llm import Message
from ldm.types import EpisodeResult, Task, Trajectory
from tests.agents.loop_contract import played
from tests.agents.scripted import Scripted
from tests.toy import ToyEnv

ENV = ToyEnv()
TASK = ENV.tasks("test")[0]


def block(tag: str, text: str) -> str:
    blocks = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return str(blocks[-1]) if blocks else ""


@dataclass
class Ideal:
    """can: task → the actions that do it, for executors; a task that is not in it fails at once.

    plans: task → the planner's reply. sees: task → what a judge replies. prompts: all user parts.
    """

    can: Mapping[str, Sequence[str]]
    plans: Mapping[str, str] = field(default_factory=dict)
    sees: Mapping[str, str] = field(default_factory=dict)

    def model(self) -> Scripted:
        """The model for all roles."""
        return Scripted(lambda messages, sampling: self.reply(messages))

    def reply(self, messages: Sequence[Message]) -> str:
        system, question = messages[0].content, messages[-1].content
        task = block("task", question)
        if "You divide a task" in system:
            return self.plans.get(task, "I would not know how.")
        if "You look at a page" in system:
            return self.sees.get(task, "nothing\ntask failed")
        actions = self.can.get(task)
        if actions is None:
            return "Act: task failed"
        step_count = len(re.findall("^Act: ", block("so-far", question), re.MULTILINE))
        return f"Act: {actions[step_count]}" if step_count < len(actions) else "Act: task completed"


def halving(ways: Mapping[str, Sequence[str]]) -> Ideal:
    """Divides a task into its two halves; the second needs a further division.

    ways: task → the actions that do it.
    """
    can, plans = dict[str, Sequence[str]](), dict[str, str]()
    for goal, actions in ways.items():
        half = len(actions) // 2
        first, second, last = f"{goal}, begin", f"{goal}, end", f"{goal}, really"
        can |= {first: actions[:half], last: actions[half:]}
        plans |= {
            goal: f"Step 1: {first}\nStep 2: {second}\nExecution Order: Step 1 AND Step 2",
            second: f"Step 1: {last}\nExecution Order: Step 1",
        }
    return Ideal(can, plans)


def play(
    env: Environment,
    task: Task,
    llm: Scripted,
    planner: Scripted | None = None,
    *,
    name: str = "adapt",
    **options: Any,
) -> tuple[EpisodeResult, Node, Trajectory]:
    """An episode of the agent called `name`, with its tree and its last trial."""
    agent_class = load_agent(name)
    resources = Resources(llm=llm, planner=planner or llm)
    agent = agent_class(agent_class.Options(**options), resources)
    result, (*_, trial) = played(agent, env, task)
    tree = tree_of(result)
    assert tree is not None
    return result, tree, trial


def outline(node: Node) -> list[tuple[int, str, str]]:
    """(k, task, how its executor ended) of all nodes."""
    return [(child.k, child.task, child.executor) for child in node.walk()]

"""ADaPT's recursion: try a task; where its executor fails, plan and recurse (arXiv 2311.05772, §3).

adapt(T, k): run the executor on T; where it does not succeed and k < d_max, the planner gives
sub-tasks and their logic, and each is adapt(T', k + 1). And stops at the first failure, Or at the
first success; groups within groups cost no depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.agents.adapt.handover import rule_of
from ldm.agents.adapt.logic import Logic, Plan, parse_plan
from ldm.agents.adapt.tree import Node
from ldm.agents.executor import Hint, LoopOptions, Work, run
from ldm.agents.replies import COMPLETED, FAILED
from ldm.agents.transcript import View, ask, outlined, told
from ldm.episode import Episode, EpisodeOver
from ldm.llm import GREEDY, LLM, Completion, Message, Sampling
from ldm.prompts import render, shortened
from ldm.types import Step, Trajectory

#: Tokens of a judgement; characters of a sub-task and of a judgement that are kept.
JUDGEMENT, LONGEST = 100, 400


class Counted:
    """A model of which a task may make `most` calls, together with others that share `made`."""

    def __init__(self, llm: LLM, most: int | None, made: list[int]) -> None:
        self.name = llm.name
        self._llm = llm
        self._most = most
        self._made = made

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """As `LLM.complete`; raises EpisodeOver where no call is left."""
        if self._most is not None and len(self._made) >= self._most:
            raise EpisodeOver("budget")
        found = self._llm.complete(
            messages, schema=schema, sampling=sampling, max_tokens=max_tokens, stop=stop
        )
        self._made.append(1)
        return found


@dataclass(frozen=True, slots=True)
class Limits:
    """d_max: the greatest depth. steps: of an executor call. plan: tokens of a plan."""

    d_max: int
    steps: int
    plan: int


@dataclass
class Controller:
    """Carries out one task in a running trial.

    demonstrations, skills: what executors are shown. divided: demonstrations with plans for their
    tasks, which the planner is shown. root: the tree that grows meanwhile.
    """

    episode: Episode
    llm: LLM
    planner: LLM
    options: LoopOptions
    limits: Limits
    demonstrations: tuple[Trajectory, ...] = ()
    skills: tuple[str, ...] = ()
    divided: tuple[tuple[Trajectory, str], ...] = ()
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opening = self.episode.now.observation
        self.root = Node(self.episode.goal)
        self.rule = rule_of(self.episode.card)

    def solve(self) -> bool:
        """adapt(goal, 1): whether the controller holds the task to be done.

        Raises EpisodeOver when the trial ends before, and what model calls raise.
        """
        return self._adapt(self.root, "")[0]

    def _adapt(self, node: Node, carried: str) -> tuple[bool, str]:
        """(success, what is handed on) of a task; `carried` is what it is given."""
        try:
            success, after = self._attempt(node, carried)
            if not success and node.k < self.limits.d_max:
                plan = self._plan(node)
                node.planned(plan)
                if plan.logic is not None:
                    success, after = self._follow(node, plan, plan.logic, carried)
        except EpisodeOver as over:
            node.done = over.end == "done"
            raise
        node.success = success
        return success, after

    def _follow(self, node: Node, plan: Plan, logic: Logic, carried: str) -> tuple[bool, str]:
        """As `_adapt`, for a part of a plan's logic. All parts of an Or are given the same."""
        if isinstance(logic, int):
            child = Node(shortened(plan.steps[logic], LONGEST), node.k + 1, logic)
            node.children.append(child)
            return self._adapt(child, carried)
        either = logic.operator == "or"
        given = carried
        for part in logic.parts:
            success, after = self._follow(node, plan, part, given)
            if success == either:
                return success, after if success else carried
            if not either:
                given = after
        return not either, carried if either else given

    def _attempt(self, node: Node, carried: str) -> tuple[bool, str]:
        """As `_adapt`, for the task's own executor."""
        first = node.task.split(maxsplit=1)[0].casefold() if node.task.strip() else ""
        node.mode = "judge" if first.strip(":*") in self.episode.card.judged else "loop"
        work = None if node.mode == "judge" else self._work(node, carried)
        steps: tuple[Step, ...] = ()
        said = ""
        left = self.episode.steps_left
        try:
            if work is None:
                node.executor, said = self._judge(node)
            else:
                outcome = run(self.episode, self.llm, work, self.options)
                node.executor, steps = outcome.end, outcome.steps
        except EpisodeOver as over:
            node.executor = "ended" if over.end == "done" else "stopped"
            raise
        finally:
            node.steps = left - self.episode.steps_left
        if node.executor == "completed":
            return True, self.rule.after(self.episode, steps, said, carried)
        self.failed.append(node.task)
        return False, carried

    def _work(self, node: Node, carried: str) -> Work:
        whole = node is self.root
        hints = () if whole else self.rule.to_executor(self.episode, carried)
        if self.skills:
            skills = "\n".join(self.skills)
            hints = (Hint("What such a task is made of", "skills", skills), *hints)
        return Work(
            node.task,
            self.demonstrations,
            hints,
            opening=None if whole else self.rule.seen(self.episode, self.opening),
            steps=self.limits.steps,
            judged=True,
        )

    def _judge(self, node: Node) -> tuple[Any, str]:
        """How a look at the page turns out, and what was said; it takes a step, as a thought."""

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/adapt/judge",
                task=node.task,
                whole=self.episode.goal,
                page=told(self.episode.now.observation, (), width=view.width),
            )

        reply = self._asked(self.llm, prompt, JUDGEMENT)
        said = shortened(reply, LONGEST)
        self.episode.think(said or "(no judgement)")
        verdicts = re.findall(rf"{COMPLETED}|{FAILED}", reply.casefold())
        return ("completed" if verdicts[-1:] == [COMPLETED] else "failed"), said

    def _plan(self, node: Node) -> Plan:
        hints = self.rule.to_planner(self.episode, self.failed)

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/adapt/plan",
                card=self.episode.card,
                examples=[
                    outlined(one, plan, width=view.width)
                    for one, plan in self.divided[: view.demonstrations]
                ],
                task=node.task,
                hints=hints,
                seen=told(self.rule.seen(self.episode, self.opening), (), width=view.width),
            )

        return parse_plan(self._asked(self.planner, prompt, self.limits.plan, len(self.divided)))

    def _asked(
        self, llm: LLM, prompt: Callable[[View], list[Message]], tokens: int, examples: int = 0
    ) -> str:
        widest = View(examples, self.options.observation)
        completion, _ = ask(llm, prompt, widest, 0, max_tokens=tokens)
        return completion.text.strip()

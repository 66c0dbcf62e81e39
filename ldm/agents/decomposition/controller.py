"""ADaPT's recursion: try a task; where its executor fails, plan and recurse (arXiv 2311.05772, §3).

adapt(T, k): run the executor on T; where it does not succeed and k < d_max, the planner gives
sub-tasks and their logic, and each is adapt(T', k + 1). And stops at the first failure, Or at the
first success; groups within groups cost no depth. A controller that plans first is not adaptive: it
begins with the plan for the whole task (the paper's App. B).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.agents.decomposition.handover import rule_of
from ldm.agents.decomposition.logic import Logic, Plan, parse_plan
from ldm.agents.decomposition.tree import Node
from ldm.agents.executor import Hint, LoopOptions, Work, run
from ldm.agents.replies import COMPLETED, FAILED
from ldm.agents.transcript import View, ask, outlined, transcript_text
from ldm.episode import Episode, EpisodeOver
from ldm.llm import GREEDY, LLM, Completion, Message, Sampling
from ldm.prompts import render, shortened
from ldm.types import Step, Trajectory

#: Tokens of a judgement; characters of a sub-task and of a judgement that are kept.
JUDGEMENT, LONGEST = 100, 400


class Counted:
    """A model of which a task may make `most` calls, together with others that share `calls`."""

    def __init__(self, llm: LLM, most: int | None, calls: list[int]) -> None:
        self.name = llm.name
        self._llm = llm
        self._most = most
        self._calls = calls

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Ask as `LLM.complete` does; raise EpisodeOver where no call is left."""
        if self._most is not None and len(self._calls) >= self._most:
            raise EpisodeOver("budget")
        completion = self._llm.complete(
            messages, schema=schema, sampling=sampling, max_tokens=max_tokens, stop=stop
        )
        self._calls.append(1)
        return completion


@dataclass(frozen=True, slots=True)
class Limits:
    """d_max: the greatest depth. steps: of an executor call. plan: tokens of a plan."""

    d_max: int
    steps: int
    plan: int


@dataclass
class Controller:
    """Carries out one task in a running trial.

    plan_first: plan the whole task, in detail, before anyone tries it. demonstrations, skills: what
    executors are shown. divided: demonstrations with plans for their tasks, which the planner is
    shown. root: the tree that grows meanwhile.
    """

    episode: Episode
    llm: LLM
    planner: LLM
    options: LoopOptions
    limits: Limits
    plan_first: bool = False
    demonstrations: tuple[Trajectory, ...] = ()
    skills: tuple[str, ...] = ()
    divided: tuple[tuple[Trajectory, str], ...] = ()
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opening = self.episode.now.observation
        self.root = Node(self.episode.goal)
        self.rule = rule_of(self.episode.card)

    def solve(self) -> bool:
        """Return whether the controller holds the task to be done: adapt(goal, 1).

        Raises EpisodeOver when the trial ends before, and what model calls raise.
        """
        return self._adapt(self.root, "")[0]

    def _adapt(self, node: Node, carried: str) -> tuple[bool, str]:
        """Return (success, what it hands over) of a task; carried: what was handed over to it."""
        untried = self.plan_first and node is self.root
        try:
            success, after = (False, carried) if untried else self._attempt(node, carried)
            if not success and node.k < self.limits.d_max:
                plan = self._plan(node)
                node.planned(plan)
                if plan.logic is not None:
                    success, after = self._follow(node, plan, plan.logic, carried)
                elif untried:
                    success, after = self._attempt(node, carried)
        except EpisodeOver as over:
            node.done = over.end == "done"
            raise
        node.success = success
        return success, after

    def _follow(self, node: Node, plan: Plan, logic: Logic, carried: str) -> tuple[bool, str]:
        """Return what `_adapt` does, for a part of a plan's logic. Parts of an Or begin alike."""
        if isinstance(logic, int):
            child = Node(shortened(plan.steps[logic], LONGEST), node.k + 1, logic)
            node.children.append(child)
            return self._adapt(child, carried)
        either = logic.operator == "or"
        current = carried
        for part in logic.parts:
            success, after = self._follow(node, plan, part, current)
            if success == either:
                return success, after if success else carried
            if not either:
                current = after
        return not either, carried if either else current

    def _attempt(self, node: Node, carried: str) -> tuple[bool, str]:
        """Return what `_adapt` does, for the task's own executor."""
        first = node.task.split(maxsplit=1)[0].casefold() if node.task.strip() else ""
        node.mode = "judge" if first.strip(":*") in self.episode.card.judged else "loop"
        work = None if node.mode == "judge" else self._work(node, carried)
        steps: tuple[Step, ...] = ()
        judgement = ""
        left = self.episode.steps_left
        try:
            if work is None:
                node.executor, judgement = self._judge(node)
            else:
                outcome = run(self.episode, self.llm, work, self.options)
                node.executor, steps = outcome.end, outcome.steps
        except EpisodeOver as over:
            node.executor = "ended" if over.end == "done" else "stopped"
            raise
        finally:
            node.steps = left - self.episode.steps_left
        if node.executor == "completed":
            return True, self.rule.after(self.episode, steps, judgement, carried)
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
        """Look at the page, a step like a thought; return the verdict and the judgement."""

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/decomposition/judge",
                task=node.task,
                whole=self.episode.goal,
                page=transcript_text(self.episode.now.observation, (), width=view.width),
            )

        reply = self._reply(self.llm, prompt, JUDGEMENT)
        judgement = shortened(reply, LONGEST)
        self.episode.think(judgement or "(no judgement)")
        verdicts = re.findall(rf"{COMPLETED}|{FAILED}", reply.casefold())
        return ("completed" if verdicts[-1:] == [COMPLETED] else "failed"), judgement

    def _plan(self, node: Node) -> Plan:
        hints = self.rule.to_planner(self.episode, self.failed)

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/decomposition/plan",
                card=self.episode.card,
                detailed=self.plan_first,
                examples=[
                    outlined(one, plan, width=view.width)
                    for one, plan in self.divided[: view.demonstrations]
                ],
                task=node.task,
                hints=hints,
                seen=transcript_text(
                    self.rule.seen(self.episode, self.opening), (), width=view.width
                ),
            )

        return parse_plan(self._reply(self.planner, prompt, self.limits.plan, len(self.divided)))

    def _reply(
        self, llm: LLM, prompt: Callable[[View], list[Message]], tokens: int, examples: int = 0
    ) -> str:
        widest = View(examples, self.options.observation)
        completion, _ = ask(llm, prompt, widest, 0, max_tokens=tokens)
        return completion.text.strip()

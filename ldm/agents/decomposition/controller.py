"""ADaPT's recursion: try a task; if its executor fails, plan and recurse (arXiv 2311.05772, §3).

adapt(T, k): run the executor on T; if it does not succeed and k < d_max, the planner gives
sub-tasks and their logic, and each is adapt(T', k + 1). And stops at the first failure, Or at the
first success; groups within groups add no depth. A controller that plans first is not adaptive: it
begins with the plan for the whole task (the paper's App. B).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldm.agents import demonstrations
from ldm.agents.decomposition.handover import looked, part_of, rule_of, skill_of
from ldm.agents.decomposition.logic import Logic, Plan, parse_plan
from ldm.agents.decomposition.tree import Node
from ldm.agents.executor import ExecutorOptions, task_work
from ldm.agents.loop import Loop, View, Work, ask
from ldm.agents.replies import COMPLETED, FAILED
from ldm.agents.transcript import division_texts, look_texts, transcript_text
from ldm.episode import Episode, EpisodeOver
from ldm.llm import LLM, Completion, Message
from ldm.prompts import render, shortened
from ldm.types import Step

#: Tokens of a judgement; characters of a sub-task and of a judgement that are kept.
JUDGEMENT, LONGEST = 100, 400
#: What follows a plan in its prompt, and where small models go on by themselves.
PLAN_STOP = ("\n</example>", "\n<task>", "\n<seen>")


class Counted:
    """A model limited to `most` calls per task, counted together with others sharing `calls`."""

    def __init__(self, llm: LLM, most: int | None, calls: list[int]) -> None:
        self.name = llm.name
        self._llm = llm
        self._most = most
        self._calls = calls

    def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Ask as `LLM.complete` does; raise EpisodeOver if no call is left."""
        if self._most is not None and len(self._calls) >= self._most:
            raise EpisodeOver("budget")
        completion = self._llm.complete(messages, **options)
        self._calls.append(1)
        return completion


@dataclass
class Controller:
    """Carries out one task in a running trial.

    d_max: maximum depth. steps: of an executor call. plan: maximum tokens of a plan. plan_first:
    whether the whole task is planned in detail before an executor tries it. restore: whether each
    executor begins where the last success left the world. root: the tree so far. failed: the tasks
    at which executors failed. reached: the steps up to the last success. replayed: how many of them
    were repeated to return there.
    """

    episode: Episode
    llm: LLM
    planner: LLM
    options: ExecutorOptions
    d_max: int
    steps: int
    plan: int
    plan_first: bool = False
    restore: bool = False
    failed: list[str] = field(default_factory=list)
    reached: tuple[Step, ...] = ()
    replayed: int = 0

    def __post_init__(self) -> None:
        episode, options = self.episode, self.options
        self.opening = episode.now.observation
        self.root = Node(episode.goal)
        self.rule = rule_of(episode.card)
        self.whole = task_work(episode, options)
        place, shots = options.demonstrations, options.shots
        looks = demonstrations.skills(episode.env_name, place) if shots else ()
        self.looks = tuple(one for one in looks if one.task.kind in episode.card.judged)
        known = demonstrations.divisions(episode.env_name, place, episode.kind, shots)
        self.divisions = tuple(
            one for one in known if (one.detailed if self.plan_first else one.plan)
        )

    def solve(self) -> bool:
        """Return whether the controller judges the task to be done: adapt(goal, 1).

        Raise EpisodeOver if the trial ends first, and the errors of model calls.
        """
        return self._adapt(self.root, "")[0]

    def _adapt(self, node: Node, carried: str) -> tuple[bool, str]:
        """Return a task's success and the text that it hands over; carried: what it received."""
        untried = self.plan_first and node is self.root
        try:
            success, after = (False, carried) if untried else self._attempt(node, carried)
            if not success and node.k < self.d_max:
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
        """Carry out a part of a plan's logic; return as `_adapt`. Parts of an Or begin alike."""
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
        """Run the task's own executor; return as `_adapt`."""
        node.mode = "judge" if skill_of(node.task) in self.episode.card.judged else "loop"
        if self.restore and not self._untouched:
            self.episode.restart(self.reached)
            self.replayed += len(self.reached)
        work = None if node.mode == "judge" else self._work(node, carried)
        steps: tuple[Step, ...] = ()
        judgement = ""
        left = self.episode.steps_left
        try:
            if work is None:
                node.executor, judgement = self._judge(node)
            else:
                outcome = Loop(self.episode, self.llm, work, self.options).run()
                node.executor, steps = outcome.end, outcome.steps
        except EpisodeOver as over:
            node.executor = "ended" if over.end == "done" else "stopped"
            raise
        finally:
            node.steps = left - self.episode.steps_left
        if node.executor == "completed":
            self.reached = tuple(step for step in self.episode.steps if step.action)
            return True, self.rule.after(self.episode, steps, judgement, carried)
        self.failed.append(node.task)
        return False, carried

    @property
    def _untouched(self) -> bool:
        """Whether nothing was done since the last success."""
        return len(self.episode.past) == len(self.reached)

    def _work(self, node: Node, carried: str) -> Work:
        whole = replace(self.whole, steps=self.steps)
        if node is self.root:
            return whole
        opening = self._beginning()
        return part_of(whole, node.task, self.episode, opening, carried)

    def _beginning(self) -> str:
        """Return what a sub-task sees first: nothing of what failed attempts left (App. A)."""
        return self.rule.beginning(self.episode, self.opening, untouched=self._untouched)

    def _judge(self, node: Node) -> tuple[Any, str]:
        """Judge what is seen, which is a step like a thought; return the verdict and the judgement.

        What was opened for that and does not fit is left again.
        """
        card = self.episode.card
        page, opened = looked(self.episode.act, card, node.task, self.episode.now)
        looks = tuple(one for one in self.looks if one.task.kind == skill_of(node.task))

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/decomposition/judge",
                examples=look_texts(looks[: view.demonstrations], width=view.width),
                task=node.task,
                whole=self.episode.goal,
                page=transcript_text(page, (), width=view.width),
            )

        reply = self._reply(self.llm, prompt, len(looks), max_tokens=JUDGEMENT)
        text = reply.text.strip()
        judgement = shortened(text, LONGEST)
        self.episode.think(judgement or "(no judgement)")
        verdicts = re.findall(rf"{COMPLETED}|{FAILED}", text.casefold())
        completed = verdicts[-1:] == [COMPLETED]
        if opened and not completed:
            self.episode.act(card.looks[skill_of(node.task)][-1])
        return ("completed" if completed else "failed"), judgement

    def _plan(self, node: Node) -> Plan:
        hints = self.rule.to_planner(self.episode, node.task, self.failed)

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/decomposition/plan",
                card=self.episode.card,
                detailed=self.plan_first,
                examples=division_texts(
                    self.divisions[: view.demonstrations],
                    detailed=self.plan_first,
                    width=view.width,
                ),
                task=node.task,
                hints=hints,
                seen=transcript_text(self._beginning(), (), width=view.width),
            )

        reply = self._reply(
            self.planner, prompt, len(self.divisions), max_tokens=self.plan, stop=PLAN_STOP
        )
        return parse_plan(reply.text.strip(), cut=reply.cut)

    def _reply(
        self, llm: LLM, prompt: Callable[[View], list[Message]], examples: int, **options: Any
    ) -> Completion:
        widest = View(examples, self.options.observation)
        completion, _ = ask(llm, prompt, widest, 0, **options)
        return completion

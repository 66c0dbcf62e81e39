"""A variant of Plan-and-Execute (arXiv 2311.05772, §4.2): one run is always shown the plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from ldm.agents.executor import ExecutorAgent, ExecutorOptions, examples, task_work
from ldm.agents.loop import Hint, Loop, View, ask
from ldm.agents.replies import THINK
from ldm.agents.transcript import outlined, transcript_text
from ldm.config import at_least
from ldm.episode import Episode
from ldm.llm import LLM, Message
from ldm.prompts import render, shortened
from ldm.types import Trajectory

#: Characters of a plan that the executor is shown.
LONGEST = 2000


@dataclass(frozen=True, slots=True)
class PlanHintOptions(ExecutorOptions):
    """Options of an agent that is shown a plan (ours)."""

    plan: Annotated[int, "Maximum tokens of the plan"] = 300

    def __post_init__(self) -> None:
        ExecutorOptions.__post_init__(self)
        at_least(1, plan=self.plan)


class PlanHintAgent(ExecutorAgent):
    """A planner writes one detailed plan with AND and OR; a single run is shown it throughout."""

    name = "plan_hint"
    paper = "ours, after Plan-and-Execute in ADaPT, arXiv 2311.05772, §4.2"
    Options = PlanHintOptions
    options: PlanHintOptions

    def solve(self, episode: Episode) -> None:
        """Play one trial. The plan never changes."""
        planner = self._resources.model(episode, "planner")
        llm = self._resources.model(episode)
        with episode.trial():
            whole = examples(episode, replace(self.options, strength=None))
            plan = self._plan(episode, planner, whole)
            episode.note("plan", text=plan)
            hints = [Hint("Your plan", "plan", _steps(plan))] if plan else []
            work = task_work(episode, self.options, *hints)
            Loop(episode, llm, work, self.options).run()

    def _plan(self, episode: Episode, planner: LLM, trajectories: tuple[Trajectory, ...]) -> str:
        """Return the plan in the planner's words, or "" if it gives none."""

        def prompt(view: View) -> list[Message]:
            return render(
                "agents/plan",
                card=episode.card,
                examples=[
                    outlined(one, _plan_of(one), width=view.width)
                    for one in trajectories[: view.demonstrations]
                ],
                task=episode.goal,
                opening=transcript_text(episode.now.observation, (), width=view.width),
            )

        widest = View(len(trajectories), self.options.observation)
        completion, _ = ask(planner, prompt, widest, 0, max_tokens=self.options.plan)
        return shortened(completion.text.strip(), LONGEST)


def _plan_of(demonstration: Trajectory) -> str:
    """Return the first thought and the actions of a demonstration as a plan.

    There is no AND between the steps: a small model would write it into its actions.
    """
    thought = next((step.thought for step in demonstration.steps if step.thought), "")
    actions = [step.action for step in demonstration.steps if step.action]
    plan = "\n".join(f"{number}. {action}" for number, action in enumerate(actions, 1))
    return f"{THINK} {thought}\n{plan}" if thought else plan


def _steps(plan: str) -> str:
    """Return a plan without the thought before its list, which an executor would repeat."""
    first = re.search(r"^\W*1[.):]", plan, re.MULTILINE)
    return plan[first.start() :].strip() if first else plan

"""Learning from attempts (AutoPlan, Ouyang & Li, arXiv 2305.15064, §3.2.2 and §3.2.3).

`reflect` asks for a summary, a flaw and a revision of one attempt, `rewritten` for the plan that
follows from a batch of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ldm.agents.autoplan import AutoPlanOptions
from ldm.agents.autoplan.plans import Experience, Reflection
from ldm.agents.autoplan.settings import AutoPlanSettings
from ldm.agents.loop import View, ask
from ldm.agents.transcript import transcript_text
from ldm.llm import LLM, Message
from ldm.prompts import render, shortened
from ldm.types import Card, Trajectory

#: Lines and characters of a plan that are kept: a rambling one would fill every prompt.
MOST_STEPS, LONGEST = 15, 2000

_TAG = re.compile(r"</?[a-z-]+>")
_LISTED = re.compile(r"\s*(?:\*\*)?(?:step\s*)?\d+\s*[.):]|\s*[-*•]\s+\S", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The subject of a reflection: the attempt at a task with a plan, its reward included.

    solution: the actions that solve the task, "" if they are not shown.
    """

    plan: str
    trajectory: Trajectory
    solution: str = ""


def reflect(llm: LLM, card: Card, attempt: Attempt, settings: AutoPlanSettings) -> Reflection:
    """Return the model's view of an attempt: a summary and, fully, the plan's flaw and revision.

    Summary and flaw are asked for independently, each after the attempt and its reward (Eq. 6, 7);
    the revision after the request for the flaw and the model's reply to it (Eq. 8).
    Raise the errors of a model call.
    """
    tried, view = attempt.trajectory, View(0, AutoPlanOptions().observation)

    def reply(part: Literal["summary", "flaw"], follow: Sequence[Message] = ()) -> str:
        """Return the reply to a question on the attempt, or to the messages that follow it."""
        nonlocal view  # once shortened, it stays short

        def prompt(view: View) -> list[Message]:
            first = render(
                "agents/autoplan/reflect",
                card=card,
                plan=attempt.plan,
                task=tried.task.goal,
                transcript=transcript_text(
                    tried.opening, tried.steps, width=view.width, skipped=view.skipped
                ),
                success=tried.success,
                steps=len(tried.steps),
                solution=attempt.solution,
                part=part,
            )
            return [*first, *follow]

        completion, view = ask(
            *(llm, prompt, view, len(tried.steps)),
            sampling=settings.sampling,
            max_tokens=settings.part,
        )
        return shortened(completion.text.strip(), LONGEST)

    summary = reply("summary")
    if settings.reflection == "summary":
        return Reflection(summary)
    flaw = reply("flaw")
    follow = (Message("assistant", flaw or "…"), *render("agents/autoplan/revision"))
    return Reflection(summary, flaw, reply("flaw", follow))


def rewritten(
    llm: LLM,
    card: Card,
    about: str,
    plan: str,
    batch: Sequence[Experience],
    settings: AutoPlanSettings,
) -> str:
    """Return the plan rewritten after a batch (Eq. 9); "" if the model gave none, or half of one.

    about: the aim of tasks of the plan's kind, "" if there is more than one kind.
    """
    whole = [one for one in batch if one.trajectory is not None and not one.result.error]

    def prompt(view: View) -> list[Message]:
        attempts = [
            {"success": one.result.success, "text": shortened(_in_words(one), view.width)}
            for one in whole
        ]
        return render(
            "agents/autoplan/update", card=card, plan=plan, about=about, attempts=attempts
        )

    completion, _ = ask(
        llm, prompt, View(0, LONGEST), 0, sampling=settings.sampling, max_tokens=settings.length
    )
    return "" if completion.cut else cleaned(completion.text)


def _in_words(one: Experience) -> str:
    """Return an attempt as the update shows it: the task and the reflection."""
    reflection = one.reflection
    parts = [
        f"Task: {one.result.task.goal}",
        f"What happened: {reflection.summary}",
        f"What was wrong: {reflection.flaw}" if reflection.flaw else "",
        f"What to change: {reflection.revision}" if reflection.revision else "",
    ]
    return "\n".join(part for part in parts if part)


def cleaned(text: str) -> str:
    """Return the plan in a reply: its list without the text around it, "" if it is empty.

    A reply without a list is taken as it is.
    """
    lines = [
        line.rstrip()
        for line in re.sub(r"```\w*", "", text).splitlines()
        if line.strip() and not _TAG.fullmatch(line.strip())
    ]
    first = next((at for at, line in enumerate(lines) if _LISTED.match(line)), None)
    if first is not None:
        steps: list[str] = []
        for line in lines[first:]:
            if not _LISTED.match(line) and not line.startswith((" ", "\t")):
                break
            if line not in steps:
                steps.append(line)
        lines = steps[:MOST_STEPS]
    return shortened("\n".join(lines).strip(), LONGEST)

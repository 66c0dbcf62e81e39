"""Reflexion (Shinn et al., arXiv 2303.11366): what went wrong, in words, joins the next trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ldm.agents.executor import Hint, run
from ldm.agents.exemplars import ExemplarAgent, ExemplarOptions
from ldm.agents.transcript import View, ask, transcript_text
from ldm.episode import Episode
from ldm.llm import LLM, Message
from ldm.prompts import bullets, render, shortened
from ldm.types import Trajectory

#: Trials where the environment's card has no published number.
TRIALS = 5
#: Characters of a reflection that later prompts show.
LONGEST = 800


@dataclass(frozen=True, slots=True)
class ReflexionOptions(ExemplarOptions):
    """trials: attempts at a task; None for the environment's published number (LDM², Tables 1 and
    2; ADaPT, §4.2, on TextCraft; Reflexion, §4.2, on HotpotQA), or 5. lessons: how many
    of the latest reflections a prompt shows (Reflexion, §3: one to three). reflection: maximum
    tokens of a reflection (ours).
    """

    trials: int | None = None
    lessons: int = 3
    reflection: int = 200

    def __post_init__(self) -> None:
        # super() does not work in a dataclass with slots, which is made anew.
        ExemplarOptions.__post_init__(self)
        if self.trials is not None and self.trials < 1:
            raise ValueError("trials is 1 or more")
        if self.lessons < 0 or self.reflection < 1:
            raise ValueError("lessons is 0 or more, reflection 1 or more")


class ReflexionAgent(ExemplarAgent):
    """Reflects on each failed trial, and tries again with what it learnt; the last trial stands."""

    name = "reflexion"
    sees_reward = True
    paper: ClassVar[str] = "Reflexion, arXiv 2303.11366"
    Options: ClassVar[type[ReflexionOptions]] = ReflexionOptions
    options: ReflexionOptions

    def solve(self, episode: Episode) -> None:
        """Start trials until one succeeds or all are spent."""
        options = self.options
        llm = self._resources.model(episode)
        trials = self.setting(episode.card, "trials", TRIALS)
        lessons: list[str] = []
        for number in range(trials):
            with episode.trial():
                latest = lessons[len(lessons) - options.lessons :] if options.lessons else []
                run(episode, llm, self.work(episode, *_hints(latest)), options)
            tried = episode.trajectory(number)
            if tried.success or number + 1 == trials:
                return
            text = reflect(
                episode, llm, tried, width=options.observation, tokens=options.reflection
            )
            episode.note("reflection", text=text)
            if text:
                lessons.append(text)


def _hints(lessons: Sequence[str]) -> list[Hint]:
    hint = Hint("What you learnt in earlier attempts at this task", "lessons", bullets(lessons))
    return [hint] if lessons else []


def reflect(episode: Episode, llm: LLM, tried: Trajectory, *, width: int, tokens: int) -> str:
    """Return why a trial failed and what to do in the next one; "" where the model says nothing.

    width: characters of an observation that are shown. tokens: of the reply at most.
    """

    def prompt(view: View) -> list[Message]:
        return render(
            "agents/reflect",
            card=episode.card,
            task=episode.goal,
            score=f"{tried.score:.2f}",
            transcript=transcript_text(
                tried.opening, tried.steps, width=view.width, skipped=view.skipped
            ),
        )

    completion, _ = ask(llm, prompt, View(0, width), len(tried.steps), max_tokens=tokens)
    return shortened(" ".join(completion.text.split()), LONGEST)

"""Reflexion (Shinn et al., arXiv 2303.11366): lessons of failed trials join the next trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ldm.agents.loop import Hint, TaskAgent, TaskOptions, View, ask, prompt_card
from ldm.episode import Episode
from ldm.llm import LLM, Message
from ldm.prompts import bullets, render, shortened
from ldm.types import Card, Count, Positive, Trajectory

#: Trials if the environment's card has no published number.
TRIALS = 5
#: Characters of a reflection that later prompts show.
LONGEST = 800


@dataclass(frozen=True, slots=True)
class ReflexionOptions(TaskOptions):
    """Options of Reflexion.

    Trials are published in LDM², Tables 1 and 2; ADaPT, §4.2, for TextCraft; Reflexion, §4.2, for
    HotpotQA. One to three lessons are Reflexion's, §3. The length of a reflection is ours.
    """

    trials: Annotated[Positive | None, "Attempts at a task; none: as published"] = None
    lessons: Annotated[Count, "Latest reflections that a prompt shows"] = 3
    reflection: Annotated[Positive, "Maximum tokens of a reflection"] = 200


class ReflexionAgent(TaskAgent):
    """Reflects on each failed trial, and tries again with what it learnt; the last trial stands."""

    name = "reflexion"
    sees_reward = True
    paper = "Reflexion, arXiv 2303.11366"
    Options = ReflexionOptions
    options: ReflexionOptions

    def solve(self, episode: Episode) -> None:
        """Play trials until one succeeds or all are spent."""
        options = self.options
        llm = self._resources.model(episode)
        trials = self.setting(episode.card, "trials", TRIALS)
        title = "What you learnt in earlier attempts at this task"
        lessons: list[str] = []
        for number in range(trials):
            latest = lessons[len(lessons) - options.lessons :] if options.lessons else []
            self.attempt(episode, *[Hint(title, "lessons", bullets(latest))] if latest else [])
            tried = episode.trajectory(number)
            if tried.success or number + 1 == trials:
                return
            card = prompt_card(episode.card, options.card)
            text = reflect(llm, card, tried, width=options.observation, tokens=options.reflection)
            episode.note("reflection", text=text)
            if text:
                lessons.append(text)


def reflect(llm: LLM, card: Card, tried: Trajectory, *, width: int, tokens: int) -> str:
    """Return why a trial failed and how to do better in the next one; "" if the reply is empty.

    width: characters shown of an observation. tokens: maximum of the reply.
    """

    def prompt(view: View) -> list[Message]:
        return render(
            "agents/reflect",
            card=card,
            task=tried.task.goal,
            score=f"{tried.score:.2f}",
            transcript=view.transcript(tried.opening, tried.steps),
        )

    completion, _ = ask(llm, prompt, View(0, width), len(tried.steps), max_tokens=tokens)
    return shortened(" ".join(completion.text.split()), LONGEST)

"""An executor's demonstrations: whole tasks, atomic skills or both (ADaPT, 2311.05772, §6.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

from ldm.agents import demonstrations
from ldm.agents.loop import CardChoice, Hint, Loop, LoopAgent, LoopOptions, Work, prompt_card
from ldm.agents.transcript import localized
from ldm.episode import Digests, Episode
from ldm.llm import GREEDY, Sampling
from ldm.types import Card, Count, Positive, Trajectory

#: The strengths of ADaPT's executors (arXiv 2311.05772, §6.2 and Fig. 5), see `ExecutorOptions`.
Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class ExecutorOptions(LoopOptions):
    """Options of agents that are shown demonstrations, two as in LDM², Table 2.

    A strength makes it an executor of ADaPT (§6.2, Fig. 5), which says when it has completed its
    task or failed: "skills" is shown a demonstration of each atomic skill (Table 1), "hybrid" those
    and whole tasks that are the same for any kind of task (§4.1), "task" whole tasks of the task's
    kind (App. C). Without a strength it is shown whole tasks of the kind and judges nothing.
    Without shots it is shown neither skills nor plans. The papers show no admissible actions.
    """

    admissible: Annotated[bool, "Show the possible actions if the environment lists them"] = False
    shots: Annotated[Count, "Demonstrations of whole tasks in a prompt"] = 2
    strength: Annotated[Strength | None, "Demonstrations of an executor that judges itself"] = None
    demonstrations: Annotated[str | None, "File of trajectories to show instead"] = None
    demonstrations_digest: Annotated[str | None, "Digest of that file; set by ldm"] = None


class ExecutorAgent(LoopAgent):
    """Base of agents that are shown demonstrations."""

    Options = ExecutorOptions
    options: ExecutorOptions
    digests: ClassVar[Digests] = {
        "demonstrations": ("demonstrations_digest", demonstrations.digest)
    }
    #: Whether it is also shown skills and plans, whatever its strength.
    divides: ClassVar[bool] = False
    #: The strength if neither the options nor the environment's card name one.
    default_strength: ClassVar[Strength | None] = None

    @classmethod
    def sources(cls, options: Any, env: str) -> Collection[str]:
        """Return the sources of the demonstrations, which must not be evaluated."""
        place, shots = options.demonstrations, options.shots
        skills = cls.divides or options.strength in ("hybrid", "skills")
        return demonstrations.sources(env, place, shots, with_skills=skills, with_plans=cls.divides)

    def strength(self, card: Card) -> Strength | None:
        """Return the strength of executors in the environment of this card."""
        published = card.published.get(self.name, {}).get("strength", self.default_strength)
        return self.options.strength or cast("Strength | None", published)


@dataclass(frozen=True, slots=True)
class TaskOptions(ExecutorOptions):
    """Options of agents that work on whole tasks.

    A bare card and a number of actions put them on AutoPlan's terms (arXiv 2305.15064, §3.1, §4.2):
    the world's rules are not told, and thoughts are free.
    """

    card: Annotated[CardChoice, "Show the grammar alone, or the world's rules too"] = "full"
    actions: Annotated[Positive | None, "Actions of a trial, in place of its steps"] = None


class TaskAgent(ExecutorAgent):
    """Base of agents that work on whole tasks."""

    Options = TaskOptions
    options: TaskOptions
    #: Whether the model is asked for thoughts.
    thinking: ClassVar[bool] = True

    def budget(self, card: Card) -> int:
        """Return the maximum steps of a trial: a thought may come before each counted action."""
        return super().budget(card) if self.options.actions is None else 2 * self.options.actions

    def attempt(self, episode: Episode, *hints: Hint, sampling: Sampling = GREEDY) -> None:
        """Play one trial of the whole task. hints: shown in addition to the skills."""
        llm = self._resources.model(episode)
        with episode.trial():
            work = replace(
                task_work(episode, self.options, *hints, sampling=sampling),
                thinking=self.thinking,
                card=prompt_card(episode.card, self.options.card),
                actions=self.options.actions,
            )
            Loop(episode, llm, work, self.options).run()


def task_work(
    episode: Episode, options: ExecutorOptions, *hints: Hint, sampling: Sampling = GREEDY
) -> Work:
    """Return the whole task as work for an executor of the options' strength.

    Call it within a trial, like `examples`. hints: shown in addition to the skills.
    """
    return Work(
        episode.goal,
        examples(episode, options),
        (*skill_hints(episode, options), *hints),
        judged=options.strength is not None,
        listed=options.admissible,
        sampling=sampling,
    )


def examples(episode: Episode, options: ExecutorOptions) -> tuple[Trajectory, ...]:
    """Return the demonstrations for an executor, in the words of the episode's task.

    Call it within a trial: only then does an environment know its dialect. Raise LdmError if the
    options name an unsuitable file.
    """
    card, shots = episode.card, options.shots
    whole = demonstrations.load(episode.env_name, options.demonstrations)
    chosen: tuple[Trajectory, ...] = ()
    if options.strength not in ("hybrid", "skills"):
        chosen = demonstrations.chosen(whole, episode.kind, shots)
    elif shots:
        skills = demonstrations.skills(episode.env_name, options.demonstrations)
        chosen = tuple(one for one in skills if one.task.kind not in card.judged)
        if options.strength == "hybrid":
            chosen += demonstrations.common(whole, card.common, shots)
    return tuple(localized(one, episode.localize) for one in chosen)


def skill_hints(episode: Episode, options: ExecutorOptions) -> tuple[Hint, ...]:
    """Return the environment's skills in words, for executors without a demonstration of them."""
    skills = episode.card.skills
    if options.strength not in ("hybrid", "skills") or not skills:
        return ()
    if demonstrations.skills(episode.env_name, options.demonstrations) and options.shots:
        return ()
    return (Hint("What such a task is made of", "skills", "\n".join(skills)),)

"""DEPS: describe, explain, plan and select (Wang et al., arXiv 2302.01560), and its baselines.

`loop` is Eq. 1 and pursues goals, `styles` has the form of each method's plans, `parser` reads them
and runs programs, `select` describes how a plan went and chooses the next goal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from ldm.agents.loop import TaskAgent
from ldm.deps import select
from ldm.deps.loop import PARSED, Controller, Executor, OwnController, Trial
from ldm.deps.parser import Parser, Vocabulary, nearest
from ldm.deps.styles import Arm, DepsOptions, examples
from ldm.episode import Digests, Episode
from ldm.errors import LdmError
from ldm.llm import LLM
from ldm.prompts import render
from ldm.text import read_bytes
from ldm.types import Card, stable_hash

#: Forms of plans that need counted items: programs.
_PROGRAMS = ("program", "policy")


def _digest(path: Path) -> str:
    """Return the digest of a horizon model's file. Raise LdmError if it cannot be read."""
    return stable_hash(read_bytes(path).hex())


class DepsAgent(TaskAgent):
    """Plans, and plans again from a description and an explanation of what failed."""

    name = "deps"
    paper = "DEPS, arXiv 2302.01560"
    reporting = select.REPORTING
    Options = DepsOptions
    options: DepsOptions
    divides = True
    default_strength = "skills"
    digests: ClassVar[Digests] = {**TaskAgent.digests, "horizon": ("horizon_digest", _digest)}

    @classmethod
    def check(cls, card: Card, options: DepsOptions) -> None:
        """Raise LdmError if the method cannot plan in the environment of this card."""
        vocabulary = Vocabulary.of(card)
        if options.style.form in _PROGRAMS and not (vocabulary.counted and card.reading.held):
            raise LdmError(
                f"The method {options.method} writes programs over an inventory, and "
                f"{card.name} has none.",
                "Use another method there, such as gpt, gpt_rp, cot, im or dep.",
            )
        if options.selector not in (None, "none") and vocabulary.free:
            raise LdmError(
                f"The goals of a plan have an order in {card.name}: there is nothing to select.",
                "Leave selector out; the paper has none there either (Table 17).",
            )

    @classmethod
    def shows_actions(cls, options: DepsOptions, card: Card) -> bool:
        """Return whether executors are shown the possible actions; planners never are."""
        return options.admissible and Vocabulary.of(card).free

    def solve(self, episode: Episode) -> None:
        """Play one trial. The rounds go into the record, however it ends.

        Raise LdmError if the method cannot work in this environment.
        """
        self.check(episode.card, self.options)
        options = self.options
        vocabulary = Vocabulary.of(episode.card)
        llm = self._resources.model(episode)
        planner = self._resources.model(episode, "planner")
        embedding = self._resources.embedding
        by_meaning = partial(nearest, vocabulary, embedding) if embedding is not None else None
        asks = options.parser == "llm" and vocabulary.counted
        extract = partial(_step, vocabulary, llm) if asks else None
        parser = Parser(vocabulary, by_meaning, extract, options.max_goals)
        demonstrations = examples(
            episode.env_name, options.demonstrations, episode.kind, options.shots, vocabulary
        )
        selector = self._selector(episode)
        strength = self.strength(episode.card)
        with episode.trial():
            controller: Controller = (
                Executor(episode, llm, replace(options, strength=strength), options.goal_steps)
                if vocabulary.free
                else OwnController(episode, vocabulary)
            )
            trial = Trial(
                episode, llm, planner, options, parser, controller, selector, demonstrations
            )
            try:
                trial.run()
            finally:
                rounds = [turn.as_data() for turn in trial.turns]
                episode.note(select.NOTE, method=options.method, rounds=rounds)

    def _selector(self, episode: Episode) -> select.Selector:
        """Return the selector of goals for an episode."""
        options, card = self.options, episode.card
        model = self._horizon(card)
        arm: Arm = options.selector or (
            "horizon" if options.method == "deps" and model is not None else "none"
        )
        match arm:
            case "horizon":
                if model is None:
                    raise LdmError(
                        f"There is no horizon model for {card.name}.",
                        f"{select.REMEDY} Then name it with --agent.horizon FILE.",
                    )
                return partial(select.soonest, partial(model.times, card=card))
            case "random":
                return select.AtRandom(self._resources.seed, episode.task_id)
            case "similarity":
                if (embedding := self._resources.embedding) is None:
                    raise LdmError(
                        "The selector similarity needs an embedder, and none is configured.",
                        "`ldm doctor` says which embedders are installed.",
                    )
                return partial(select.most_similar, embedding)
        return select.in_order

    def _horizon(self, card: Card) -> select.HorizonModel | None:
        """Return the model that the options name, or the one shipped for the environment."""
        named = self.options.horizon
        path = select.shipped(card.name) if named is None else Path(named).expanduser()
        if path is None:
            return None
        model = select.horizon_model(path)
        if model.env != card.name:
            raise LdmError(
                f"The horizon model in {path} is of {model.env}, not of {card.name}.", select.REMEDY
            )
        return model


def _step(vocabulary: Vocabulary, llm: LLM, line: str) -> str:
    """Ask a model to rewrite a line of a plan as a step that the rules can read."""
    messages = render("agents/deps/parse", verbs=sorted(vocabulary.items), said=line)
    reply = llm.complete(messages, max_tokens=PARSED, stop=("\n\n",)).text
    split = (part.partition(":") for part in reply.split(";"))
    parts = {key.strip().casefold(): value.strip() for key, _, value in split}
    action, thing, tool = (parts.get(name, "") for name in ("action", "object", "tool"))
    if not action or not thing:
        return ""
    return f"step 1: {action} {thing}" + (f" with {tool}" if tool else "")

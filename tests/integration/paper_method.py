"""LDM² as published, from people's episodes to a refined memory, as its preset sets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.config import Refine
from ldm.explore import ExplorationSetup, Tree
from ldm.explore.refine import Explorer
from ldm.memory import FormationOptions, Memory, build, extend
from ldm.policy import Policy
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.run.builders import Knowledge
from ldm.run.presets import Preset, preset
from ldm.types import Trajectory
from tests.embedder import BagOfWords
from tests.reason.scripted import Scripted

EMBEDDER = BagOfWords()


@dataclass
class Method:
    """The paper's way in one world. reply: what the model says. steps: of a process."""

    name: str
    world: Any
    reply: Any
    steps: int

    @property
    def preset(self) -> Preset:
        return preset(self.name)

    def agent(self, memory: Memory) -> tuple[LdmAgent, Scripted]:
        """The agent of the row LDM² In, and its model."""
        row = next(row for row in self.preset.content.rows if row.name == "LDM² In")
        options = row.player.with_options(budget=self.steps).typed(LdmOptions, "ldm")
        knowledge = Knowledge(EMBEDDER, OfflineReasoner(EMBEDDER), memory)
        model = Scripted(self.reply)
        return LdmAgent(options, Resources(memory, reasoner_llm=model, ask=knowledge.ask)), model

    def form(
        self, place: str, people: Sequence[Trajectory], batch_size: int
    ) -> tuple[Memory, Scripted]:
        """The memory of what people did, and the model that formed it."""
        wording, model = self.preset.content.build["wording"], Scripted(self.reply)

        def forming(_: Any) -> PromptedReasoner:
            return self._reasoner(model, PromptedOptions(wording=wording))

        build(place, people, EMBEDDER, forming, options=FormationOptions(batch_size=batch_size))
        return Memory.open(place, self.world.card.name, embedder=EMBEDDER), model

    def refine(self, place: str, initial: Memory, task: str) -> tuple[Memory, Refinement]:
        """The memory with what trees found at a task, and the trees."""
        spec = Refine(**self.preset.content.refine)
        deciding = spec.typed("policy")
        exploring = replace(spec.typed("search"), depth=self.steps)
        model = Scripted(self.reply)
        reasoner = self._reasoner(model, deciding.prompted())
        policy = Policy(initial, reasoner, deciding)
        setup = ExplorationSetup(self.world, initial, reasoner, policy, exploring)
        trees = Explorer(setup).explore(self.world.task(task))
        rows = [row for tree in trees for row in tree.added]
        extend(place, initial.record, rows, EMBEDDER, tasks=[task], settings={})
        refined = Memory.open(place, self.world.card.name, embedder=EMBEDDER)
        return refined, Refinement(trees, model)

    def _reasoner(self, model: Scripted, options: PromptedOptions) -> PromptedReasoner:
        known = Knowledge(EMBEDDER, OfflineReasoner(EMBEDDER), None)
        return known.ask(model, self.world.card, options)


@dataclass
class Refinement:
    """What a refinement explored, and whom it asked."""

    trees: tuple[Tree, ...]
    model: Scripted

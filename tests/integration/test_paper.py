"""LDM² as published, step by step: the preset ldm2 with a model that does what the paper's did.

Figure 1: a prompt holds tuples of the present situation. Figure 2: formation, index, refinement.
Table 3 (bottom right): what the memory does before refinement, and after. Figure 3 is a plot of
success against the size of the data.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.config import Refine
from ldm.episode import run_episode
from ldm.explore.refine import ExplorationSetup, Explorer, Tree
from ldm.explore.tree import path_to
from ldm.memory import FormationOptions, Memory, build, extend
from ldm.policy import Policy
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.run.builders import Knowledge
from ldm.run.presets import preset
from tests.embedder import BagOfWords
from tests.integration.paper_world import Kitchen, imitator, people
from tests.reason.scripted import Scripted

#: Table 3: places that were searched in vain, and the way that the tree found.
INITIAL = ["fridge 1", "shelf 1", *(f"cabinet {n}" for n in range(1, 7))]
REFINED = [
    *("go to fridge 1", "go to countertop 1", "take mug 2 from countertop 1", "go to fridge 1"),
    *("cool mug 2 with fridge 1", "go to cabinet 1", "put mug 2 in/on cabinet 1"),
]
BATCH = 5
STEPS = len(INITIAL)
PRESET = preset("ldm2-table2")
KITCHEN = Kitchen({"train/1": ("mug 2", "countertop 1"), "test/1": ("mug 2", "countertop 1")})
EMBEDDER = BagOfWords()


@dataclass
class Published:
    """The whole way of the paper. former and refiner: the models that were asked on it."""

    initial: Memory
    former: Scripted
    refined: Memory
    refiner: Scripted
    trees: tuple[Tree, ...]


def opened(place: str) -> Memory:
    return Memory.open(place, KITCHEN.card.name, embedder=EMBEDDER)


def asking(model: Scripted, options: PromptedOptions) -> PromptedReasoner:
    known = Knowledge(EMBEDDER, OfflineReasoner(EMBEDDER), None)
    return known.ask(model, KITCHEN.card, options)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """What people did becomes a memory, and what trees find at a task is added to it."""
    place, former, refiner = (
        str(tmp_path_factory.mktemp("memory")),
        Scripted(imitator),
        Scripted(imitator),
    )
    wording = PromptedOptions(wording=PRESET.content.build["wording"])
    options = FormationOptions(batch_size=BATCH)
    build(place, people(), EMBEDDER, lambda _: asking(former, wording), options=options)
    initial = opened(place)

    spec = Refine(**PRESET.content.refine)
    deciding = spec.typed("policy")
    exploring = replace(spec.typed("search"), depth=STEPS)
    reasoner = asking(refiner, deciding.prompted())
    policy = Policy(initial, reasoner, deciding)
    setup = ExplorationSetup(KITCHEN, initial, reasoner, policy, exploring)
    trees = Explorer(setup).explore(KITCHEN.task("train/1"))
    added = [row for tree in trees for row in tree.added]
    extend(place, initial.record, added, EMBEDDER, tasks=["train/1"], settings={})
    return Published(initial, former, opened(place), refiner, trees)


def played(memory: Memory) -> Any:
    """What becomes of the test as the row LDM² In plays it, and the model that it asks."""
    row = next(row for row in PRESET.content.rows if row.name == "LDM² In")
    options = row.player.with_options(budget=STEPS).typed(LdmOptions, "ldm")
    knowledge = Knowledge(EMBEDDER, OfflineReasoner(EMBEDDER), memory)
    model = Scripted(imitator)
    agent = LdmAgent(options, Resources(memory, reasoner_llm=model, ask=knowledge.ask))
    return *run_episode(KITCHEN, agent, KITCHEN.task("test/1")), model


def questions(model: Scripted, words: str) -> list[str]:
    return [messages[-1].content for messages in model.prompts if words in messages[-1].content]


class TestFormation:
    """Eq. 1 and 6 to 8, on the left of Figure 2."""

    def test_writes_a_history_at_every_step_but_the_first(self, published: Published) -> None:
        tuples = [row.tuple for row in published.initial.rows]
        assert len(tuples) == 7 * 2 * BATCH  # Eq. 1: one a step
        model = published.former
        later = len(tuples) - 2 * BATCH
        assert len(set(questions(model, "Summarise the course"))) <= later
        for one in tuples:
            done = "; ".join(one.history.actions)
            assert one.history.summary == (f"Did: {done}." if done else "")

    def test_makes_types_of_goals_and_of_observations_within_them(
        self, published: Published
    ) -> None:
        assert len(published.initial.batches) == 2
        for batch in published.initial.batches:
            (goals,) = batch.goal_types
            assert sorted(goals.observation_types) == ["empty places", "rooms", "things"]


class TestDecisions:
    """Eq. 2 to 5."""

    @pytest.fixture(scope="class")
    @staticmethod
    def before(published: Published) -> Any:
        return played(published.initial)

    def test_before_refinement_search_everywhere_in_vain(self, before: Any) -> None:
        result, trials, _ = before
        assert not result.success
        assert result.trials == 2  # Eq. 4: a process a batch memory
        for trial in trials:
            assert [step.action for step in trial.steps] == [f"go to {place}" for place in INITIAL]

    def test_ask_for_types_histories_and_the_action_at_every_step(self, before: Any) -> None:
        result, _, model = before
        decided = questions(model, "What do you do next?")
        assert len(decided) == result.env_steps
        assert len(questions(model, "Summarise the course")) == result.env_steps - 2  # Eq. 6
        assert len(questions(model, "number of its type")) >= result.env_steps  # Eq. 3
        assert len(questions(model, "Which attempt")) == 1  # Eq. 5

    def test_show_five_tuples_of_the_present_situation(self, before: Any) -> None:
        """Figure 1: no whole examples, but what others did in situations like this one."""
        decided = questions(before[-1], "What do you do next?")
        for question in decided[1:8]:
            observations = re.findall(r"^seen: (.*)", question, re.MULTILINE)
            assert len(observations) == 5
            assert all("you see nothing" in text for text in observations)
            assert "possible-actions" not in question
            assert "Did: go to fridge 1" in question

    def test_after_refinement_take_the_way_that_the_tree_found(self, published: Published) -> None:
        result, trials, _ = played(published.refined)
        assert result.success
        assert [step.action for step in trials[result.submitted].steps] == REFINED


class TestRefinement:
    """Eq. 9 and 10, on the right of Figure 2."""

    def test_plays_one_tree_a_batch(self, published: Published) -> None:
        assert [tree.batches for tree in published.trees] == [
            (batch.id,) for batch in published.initial.batches
        ]

    def test_takes_the_majority_where_recalls_agree_and_branches_elsewhere(
        self, published: Published
    ) -> None:
        for tree in published.trees:
            first = [node for node in tree.nodes if node.depth == 1]
            assert [(node.action, node.confidence) for node in first] == [("go to fridge 1", 1.0)]
            second = [node for node in tree.nodes if node.depth == 2]
            assert len(second) == 4  # n = 4
            assert [node.confidence for node in second] == pytest.approx([0.4, 0.3, 0.2, 0.1])

    def test_finds_the_way_that_earns_more(self, published: Published) -> None:
        for tree in published.trees:
            assert not tree.ground.success
            assert tree.best_score == 1.0
            path = path_to(tree.nodes, tree.nodes[tree.best])[1:]
            assert [node.action for node in path] == REFINED

    def test_adds_it_from_the_key_step_on_in_the_present_types(self, published: Published) -> None:
        compared = questions(published.refiner, "first step in which")
        assert len(compared) == len(published.trees)
        for tree in published.trees:
            assert tree.key == 1  # "go to countertop 1", which the ground process did not do
            assert [row.tuple.action for row in tree.added] == REFINED[1:]
            assert {row.batch for row in tree.added} == set(tree.batches)
            (batch,) = (b for b in published.initial.batches if b.id == tree.into)
            types = batch.goal_types[0].observation_types
            below = [types[row.observation_type] for row in tree.added]
            assert below[:2] == ["empty places", "things"]

"""Stages of a search: advances, and looking round without deciding."""

from dataclasses import replace

import pytest

from ldm.explore.best_first import Experience, search
from ldm.explore.tree import Positions, TreeNode, TreeOptions, best_leaf
from ldm.types import TimeStep
from tests.explore.maze import TASK, Doors, Maze, Told, way

GOAL = "put a hot egg in the sink"
#: The places of a kitchen, in the order in which the memory goes from one to the next.
PLACES = ("table", "chair", "lamp", "plant", "fridge", "cupboard", "shelf", "oven", "sink")
#: Place, what was done → (action, what was done then). Nothing votes for these.
ADVANCES = {
    ("shelf", "nothing"): ("take egg from shelf", "egg"),
    ("oven", "egg"): ("heat egg with oven", "hot"),
    ("sink", "hot"): ("put egg in sink", "done"),
}


def kitchen() -> Doors:
    """Return rooms for each place and what was done there; all places can be reached from all.

    The memory votes for no advance: it goes round the places for ever.
    """
    doors: dict[str, dict[str, tuple[str, float, float]]] = {}
    for done in ("nothing", "egg", "hot"):
        for number, place in enumerate(("start", *PLACES)):
            following = PLACES[number % len(PLACES)]
            ways = {
                f"go to {other}": (_room(other, done), 0.0, 1.0 if other == following else 0.0)
                for other in PLACES
                if other != place
            }
            action, then = ADVANCES.get((place, done), ("", ""))
            if action:
                ways[action] = (_room(place, then), float(then == "done"), 0.0)
            doors[_room(place, done)] = ways
    return doors


def _room(place: str, done: str) -> str:
    return place if done == "nothing" else f"{place} {done}"


def searched(goal: str) -> tuple[TreeNode, ...]:
    doors = kitchen()
    positions = Positions(Maze(doors), replace(TASK, goal=goal))
    nodes = search(positions, goal, Told(doors, {}), TreeOptions(budget=300, depth=50))
    positions.close()
    return nodes


class TestSearch:
    def test_makes_advances_that_nothing_votes_for(self) -> None:
        nodes = searched(GOAL)
        assert best_leaf(nodes).score == 1.0
        assert {"take egg from shelf", "heat egg with oven", "put egg in sink"} < set(
            way(nodes, best_leaf(nodes))
        )

    def test_needs_a_goal_that_names_them(self) -> None:
        assert best_leaf(searched("tidy up")).score < 1.0


class TestExperience:
    def step(self, observation: str, *actions: str) -> TimeStep:
        return TimeStep(observation, 0.0, False, actions, True)

    def test_an_advance_was_not_possible_at_the_start_and_names_the_goal(self) -> None:
        experience = Experience(GOAL, ["go to sink", "go to oven"])
        assert experience.advances("take egg from shelf")
        assert not experience.advances("go to sink")
        assert not experience.advances("take knife from shelf")

    def test_the_verb_and_words_that_only_join_others_name_nothing(self) -> None:
        experience = Experience(GOAL, [])
        assert not experience.advances("put the knife in a drawer")

    def test_a_word_that_few_actions_have_names_more_of_the_goal(self) -> None:
        experience = Experience(GOAL, [])
        experience.add("", self.step("A room.", "go to sink", "put on", "put off", "put out"))
        sink, put = experience.named(["go to sink", "put on"])
        assert sink == 1.0
        assert 0 < put < sink
        assert experience.named(["go to oven"]) == [0.0]

    def test_a_verb_is_barren_that_shows_nothing_new(self) -> None:
        experience = Experience(GOAL, [])
        experience.add("go to oven", self.step("An oven.", "open oven"))
        experience.add("look", self.step("An oven.", "open oven"))
        experience.add("look", self.step("An oven, as before.", "open oven"))
        assert experience.barren("go to sink") == 0.0
        assert experience.barren("look") == pytest.approx(1.585, abs=0.001)

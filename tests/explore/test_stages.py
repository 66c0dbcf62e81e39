"""Stages of a search: advances, and looking round without deciding."""

from dataclasses import replace

from ldm.explore.best_first import search
from ldm.explore.tree import Positions, TreeNode, TreeOptions, best_leaf
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

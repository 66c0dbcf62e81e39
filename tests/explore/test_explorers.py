"""Best-first search: what it finds that a beam of votes does not, and advances without a vote."""

from dataclasses import replace
from typing import Any

import pytest

from ldm.explore.best_first import Search
from ldm.explore.tree import Position, Positions, TreeNode, TreeOptions, best_leaf, leaves
from ldm.reason import Answer
from ldm.types import Proposal
from tests.explore.maze import TASK, UNLIKELY, Doors, Maze, MazeOptions, Told, way

#: Nothing votes for the hatch, behind which the treasure lies; the corridor is long and empty.
HIDDEN: Doors = {
    "start": {"on": ("hall", 0.0, 1.0), "up": ("hall", 0.0, 0.0)},
    "hall": {"on": ("loft", 0.0, 1.0), "hatch": ("cave", 0.0, 0.0)},
    "loft": {"on": ("end", 0.2, 1.0)},
    "cave": {"treasure": ("heaven", 1.0, 0.0)},
}
#: Two rooms that lead to each other: there is no end, and nothing new.
CIRCLE: Doors = {"start": {"there": ("hall", 0.0, 1.0)}, "hall": {"back": ("start", 0.0, 1.0)}}


class Voted(Told):
    """Proposes only what has a vote; where nothing has, the first door, as a policy has to."""

    def __call__(self, position: Position) -> Answer:
        decision = super().__call__(position)
        voted = tuple(p for p in decision.proposals if p.confidence > 0)
        first = (position.now.admissible or ("wait",))[0]
        return Answer(voted or (Proposal(first, 0.0),))


class Silent(Maze):
    """Lists no possible actions."""

    def _answer(self, reward: float, *, valid: bool = True) -> Any:
        return replace(super()._answer(reward, valid=valid), admissible=None)


def searched(
    doors: Doors, maze: Maze | None = None, goal: str = TASK.goal, **options: Any
) -> tuple[TreeNode, ...]:
    positions = Positions(maze or Maze(doors), TASK)
    votes = Voted(doors, {})
    nodes = Search(positions, goal, votes, TreeOptions(**options)).run()
    positions.close()
    return nodes


class TestBestFirst:
    def test_takes_an_action_that_nothing_votes_for(self) -> None:
        nodes = searched(HIDDEN)
        assert way(nodes, best_leaf(nodes)) == ["on", "hatch", "treasure"]
        assert best_leaf(nodes).score == 1.0

    def test_begins_with_what_the_memory_would_do(self) -> None:
        first = searched(HIDDEN)[:4]
        assert [node.action for node in first] == ["", "on", "on", "on"]
        assert [node.parent for node in first] == [-1, 0, 1, 2]

    def test_tries_the_likely_deviation_before_the_unlikely_one(self) -> None:
        nodes = searched(UNLIKELY)
        tried = [node.action for node in nodes if node.parent == 0]
        assert tried == ["red", "blue", "green", "grey"]
        assert way(nodes, best_leaf(nodes)) == ["grey", "on", "open"]

    def test_tries_what_the_goal_names_before_what_is_as_likely(self) -> None:
        doors: Doors = {
            "start": {
                "on": ("end", 0.1, 1.0),
                **{f"door {n}": (f"end {n}", 0.0, 0.0) for n in range(6)},
                "treasure door": ("vault", 1.0, 0.0),
            }
        }
        tried = [node.action for node in searched(doors, goal="find the treasure")][1:]
        assert tried == ["on", "treasure door"]

    def test_searches_a_state_once_that_is_reached_in_two_ways(self) -> None:
        nodes = searched(HIDDEN)
        merged = [node for node in nodes if node.fate == "merged"]
        assert all(not any(n.parent == node.number for n in nodes) for node in merged)
        doors: Doors = {**HIDDEN, "hall": {"on": ("loft", 0.0, 1.0)}}
        nodes = searched(doors)
        assert [node.fate for node in nodes if node.action == "up"] == ["merged"]
        assert all(node.fate != "merged" for node in leaves(nodes))

    def test_where_the_memory_knows_no_possible_action_ends_at_once(self) -> None:
        class Wrong(Voted):
            def __call__(self, position: Position) -> Answer:
                return Answer((Proposal("wall", 1.0),))

        positions = Positions(Silent(UNLIKELY), TASK)
        nodes = Search(positions, TASK.goal, Wrong(UNLIKELY, {}), TreeOptions()).run()
        positions.close()
        assert [node.fate for node in nodes] == ["over", "invalid"]
        assert leaves(nodes)

    def test_ends_where_nothing_new_is_left(self) -> None:
        nodes = searched(CIRCLE)
        # The way there and back is taken twice: the second time, more has been seen.
        assert len(nodes) == 5
        assert nodes[-1].fate == "merged"

    @pytest.mark.parametrize("budget", [1, 2, 7])
    def test_takes_no_more_steps_than_its_budget(self, budget: int) -> None:
        maze = Maze(UNLIKELY)
        nodes = searched(UNLIKELY, maze, budget=budget)
        assert maze.steps[0] <= budget
        assert len(nodes) == maze.steps[0] + 1
        assert leaves(nodes)

    def test_goes_no_deeper_than_asked(self) -> None:
        nodes = searched(HIDDEN, depth=2)
        assert max(node.depth for node in nodes) == 2
        assert best_leaf(nodes).score < 1

    def test_is_the_same_without_forks_by_replay(self) -> None:
        replayed = searched(HIDDEN, Maze(HIDDEN, MazeOptions(forks=False)))
        assert replayed == searched(HIDDEN)

    def test_leaves_no_copy_open(self) -> None:
        maze = Maze(UNLIKELY)
        nodes = searched(UNLIKELY, maze)
        assert maze.closed[0] == len(nodes)

    def test_works_where_the_possible_actions_are_unknown(self) -> None:
        nodes = searched(UNLIKELY, Silent(UNLIKELY))
        assert way(nodes, best_leaf(nodes)) == ["grey", "on", "open"]


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


def kitchen_searched(goal: str) -> tuple[TreeNode, ...]:
    doors = kitchen()
    positions = Positions(Maze(doors), replace(TASK, goal=goal))
    nodes = Search(positions, goal, Told(doors, {}), TreeOptions(budget=300, depth=50)).run()
    positions.close()
    return nodes


class TestAdvances:
    def test_are_made_that_nothing_votes_for(self) -> None:
        nodes = kitchen_searched(GOAL)
        assert best_leaf(nodes).score == 1.0
        assert {"take egg from shelf", "heat egg with oven", "put egg in sink"} < set(
            way(nodes, best_leaf(nodes))
        )

    def test_need_a_goal_that_names_them(self) -> None:
        assert best_leaf(kitchen_searched("tidy up")).score < 1.0

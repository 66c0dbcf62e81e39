"""The tree: what is kept and pruned, which path is the best, how a state is gone back to."""

from collections.abc import Mapping
from typing import Any

import pytest

from ldm.errors import ReplayDivergence
from ldm.explore.tree import Growth, Position, Positions, TreeNode, TreeOptions, best_leaf, leaves
from ldm.types import Proposal
from tests.explore.maze import TASK, UNLIKELY, Doors, Maze, MazeOptions, Told, way


def tree(
    doors: Doors,
    extra: Mapping[str, tuple[Proposal, ...]] | None = None,
    maze: Maze | None = None,
    **options: Any,
) -> tuple[TreeNode, ...]:
    positions = Positions(maze or Maze(doors), TASK)
    nodes = Growth(positions, Told(doors, extra or {}), TreeOptions(**options)).run()
    positions.close()
    return nodes


def corridor(length: int, reward: float = 1.0) -> dict[str, Any]:
    rooms = ["start", *(f"room {n}" for n in range(1, length)), "end"]
    pairs = zip(rooms, rooms[1:], strict=False)
    return {a: {"on": (b, reward * (b == "end"), 1.0)} for a, b in pairs}


class TestWidth:
    def test_an_unlikely_first_step_is_found_at_width_4_and_missed_at_width_1(self) -> None:
        wide, narrow = tree(UNLIKELY, width=4), tree(UNLIKELY, width=1)
        assert way(wide, best_leaf(wide)) == ["grey", "on", "open"]
        assert best_leaf(wide).score == 1.0
        assert way(narrow, best_leaf(narrow)) == ["red", "on"]
        assert best_leaf(narrow).score == 0.2

    @pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
    def test_there_are_never_more_leaves(self, width: int) -> None:
        full = {
            f"r{number}" if number else "start": {
                f"d{k}": (f"r{4 * number + k}", 0.0, 0.25) for k in (1, 2, 3, 4)
            }
            for number in range(85)
        }
        assert len(leaves(tree(full, width=width))) == width
        assert len(leaves(tree(full, width=width, depth=3))) == width

    def test_a_finished_path_keeps_its_place_and_open_ones_share_the_rest(self) -> None:
        doors = {
            "start": {"out": ("out", 0.3, 0.2), "on": ("hall", 0.0, 0.8)},
            "hall": {f"d{n}": (f"end {n}", 0.1 * n, 0.3) for n in (1, 2, 3)},
        }
        nodes = tree(doors, width=2)
        assert sorted(way(nodes, leaf) for leaf in leaves(nodes)) == [["on", "d1"], ["out"]]

    def test_what_is_pruned_is_never_carried_out(self) -> None:
        maze = Maze(UNLIKELY)
        nodes = tree(UNLIKELY, maze=maze, width=2)
        pruned = [node for node in nodes if node.fate == "pruned"]
        assert [node.action for node in pruned] == ["green", "grey"]
        assert not any(node.observation for node in pruned)
        assert maze.steps[0] == len(nodes) - 1 - len(pruned)


class TestConfidence:
    def test_of_a_path_is_the_product_of_its_way(self) -> None:
        doors = {
            "start": {"a": ("hall", 0.0, 0.5), "b": ("yard", 0.0, 0.4)},
            "hall": {"c": ("end", 0.0, 0.5)},
            "yard": {"d": ("end", 0.0, 0.9)},
        }
        nodes = tree(doors)
        result = {node.action: node.path_confidence for node in leaves(nodes)}
        assert result == {"c": pytest.approx(0.25), "d": pytest.approx(0.36)}

    def test_decides_by_the_whole_path_and_not_by_the_last_action(self) -> None:
        doors = {
            "start": {"a": ("hall", 0.0, 0.6), "b": ("yard", 0.0, 0.4)},
            "hall": {"c": ("end c", 0.0, 0.4), "e": ("end e", 0.0, 0.3)},
            "yard": {"d": ("end d", 0.0, 0.5)},
        }
        nodes = tree(doors, width=2)
        assert {node.action for node in leaves(nodes)} == {"c", "d"}

    def test_ties_go_to_what_was_proposed_first(self) -> None:
        doors = {"start": {name: (f"end {name}", 0.0, 0.25) for name in "abcd"}}
        assert [node.action for node in leaves(tree(doors, width=2))] == ["a", "b"]

    def test_equal_products_are_ties_whatever_the_order_of_their_factors(self) -> None:
        three = (0.1, 0.7, 0.3), (0.3, 0.1, 0.7)
        doors: dict[str, dict[str, tuple[str, float, float]]] = {"start": {}}
        for name, confidences in zip("ab", three, strict=True):
            doors["start"][name] = (f"{name}1", 0.0, confidences[0])
            doors[f"{name}1"] = {"on": (f"{name}2", 0.0, confidences[1])}
            doors[f"{name}2"] = {"on": (f"{name}3", 0.0, confidences[2])}
        first, second = leaves(tree(doors))
        assert first.path_confidence == second.path_confidence


class TestTheBestPath:
    def test_is_the_shorter_one_on_a_tie(self) -> None:
        doors = {
            "start": {"a": ("hall", 0.0, 0.9), "b": ("end", 0.5, 0.1)},
            "hall": {"on": ("end", 0.5, 1.0)},
        }
        nodes = tree(doors)
        assert way(nodes, best_leaf(nodes)) == ["b"]

    def test_is_the_more_confident_one_on_a_further_tie(self) -> None:
        doors = {"start": {"a": ("end", 0.5, 0.1), "b": ("end", 0.5, 0.9)}}
        nodes = tree(doors)
        assert way(nodes, best_leaf(nodes)) == ["b"]

    def test_is_some_path_where_no_reward_can_be_reached(self) -> None:
        nodes = tree(corridor(3, reward=0.0))
        assert best_leaf(nodes).score == 0.0
        assert way(nodes, best_leaf(nodes)) == ["on", "on", "on"]


class TestTheEnd:
    def test_comes_at_the_depth(self) -> None:
        nodes = tree(corridor(5), depth=3)
        (leaf,) = leaves(nodes)
        assert (leaf.fate, leaf.depth, leaf.score) == ("depth", 3, 0.0)

    def test_comes_with_the_full_score_because_all_others_would_be_longer(self) -> None:
        doors = {**corridor(9, reward=0.0)}
        doors["start"] = {**doors["start"], "jump": ("treasure", 1.0, 0.01)}
        maze = Maze(doors)
        nodes = tree(doors, maze=maze)
        assert {leaf.fate for leaf in leaves(nodes)} == {"done", "over"}
        assert maze.steps[0] == 2

    def test_rewards_on_the_way_add_up(self) -> None:
        doors = {"start": {"a": ("hall", 0.5, 1.0)}, "hall": {"b": ("end", 0.25, 1.0)}}
        assert best_leaf(tree(doors)).score == 0.75

    def test_a_state_from_which_nothing_leads_on_is_a_leaf(self) -> None:
        doors = {
            "start": {"down": ("cellar", 0.25, 0.6), "on": ("hall", 0.0, 0.4)},
            "hall": {"on": ("end", 0.0, 1.0)},
        }
        nodes = tree(doors)
        result = {tuple(way(nodes, leaf)): leaf.fate for leaf in leaves(nodes)}
        assert result == {("down",): "dead end", ("on", "on"): "done"}
        assert best_leaf(nodes).score == 0.25

    def test_where_nothing_can_be_done_at_all_the_opening_is_the_only_leaf(self) -> None:
        (root,) = tree({}, maze=Maze({"start": {"a": ("end", 1.0, 1.0)}}))
        assert root.fate == "dead end"
        assert best_leaf((root,)) == root


class TestRefusedActions:
    WALL = (Proposal("walk through the wall", 0.9),)

    def test_take_no_place(self) -> None:
        nodes = tree(UNLIKELY, {"start": self.WALL}, width=4)
        assert best_leaf(nodes).score == 1.0
        assert [node.fate for node in nodes if node.action == self.WALL[0].action] == ["invalid"]

    def test_are_no_decision_processes(self) -> None:
        doors = {"start": {"on": ("end", 0.5, 0.1)}}
        nodes = tree(doors, {"start": self.WALL})
        assert [way(nodes, leaf) for leaf in leaves(nodes)] == [["on"]]

    def test_alone_are_a_dead_end_that_keeps_its_place(self) -> None:
        doors = {
            "start": {"a": ("cellar", 0.0, 0.5), "b": ("hall", 0.0, 0.5)},
            "hall": {name: (f"end {name}", 0.0, 0.3) for name in "cde"},
        }
        nodes = tree(doors, {"cellar": self.WALL}, width=3)
        assert len(leaves(nodes)) == 3
        assert [leaf.fate for leaf in leaves(nodes)] == ["dead end", "done", "done"]


class TestTheRecord:
    def test_numbers_nodes_so_that_children_follow_their_parents(self) -> None:
        nodes = tree(UNLIKELY, width=2)
        assert [node.number for node in nodes] == list(range(len(nodes)))
        assert all(node.parent < node.number for node in nodes)

    def test_the_same_action_proposed_twice_is_one_child(self) -> None:
        nodes = tree(UNLIKELY, {"start": (Proposal("red", 0.6),)})
        assert [n.confidence for n in nodes if n.action == "red"] == [0.6]


def test_the_tree_is_the_same_by_replay() -> None:
    maze = Maze(UNLIKELY, MazeOptions(forks=False))
    assert tree(UNLIKELY, maze=maze) == tree(UNLIKELY)


def gone_on(maze: Maze) -> tuple[Positions, Position]:
    """Return a maze's positions, and that of the hall, from which one went on."""
    positions = Positions(maze, TASK)
    hall = positions.after(positions.start(), "red")
    positions.after(hall, "on")
    return positions, hall


def test_with_forks_no_step_is_replayed() -> None:
    maze = Maze(UNLIKELY)
    positions, hall = gone_on(maze)
    positions.after(hall, "on")
    assert (positions.steps, positions.replayed, maze.steps[0], maze.resets) == (3, 0, 3, 1)


def test_without_forks_only_other_ways_are_replayed() -> None:
    maze = Maze(UNLIKELY, MazeOptions(forks=False))
    positions, hall = gone_on(maze)  # the environment stands there: nothing to replay
    assert (positions.steps, positions.replayed, maze.resets) == (2, 0, 1)
    positions.after(hall, "on")
    assert (positions.steps, positions.replayed, maze.resets) == (3, 1, 2)


def test_a_replay_that_shows_something_else_is_an_error_that_names_the_step() -> None:
    positions, hall = gone_on(Maze(UNLIKELY, MazeOptions(forks=False, drifts=2)))
    with pytest.raises(ReplayDivergence, match=r"train/maze.*after step 0.*flickers"):
        positions.after(hall, "on")


def test_all_copies_are_closed() -> None:
    maze = Maze(UNLIKELY)
    positions, hall = gone_on(maze)
    positions.drop(hall)
    positions.close()
    positions.close()
    assert maze.closed[0] == 3

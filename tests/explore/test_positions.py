"""Going back to a state: by a copy, or by the way there."""

import pytest

from ldm.errors import ReplayDivergence
from ldm.explore.tree import Position, Positions
from tests.explore.maze import TASK, UNLIKELY, Maze, MazeOptions


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

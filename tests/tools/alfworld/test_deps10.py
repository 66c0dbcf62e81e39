"""DEPS' ten tasks of ALFWorld, among the games that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ldm.cli.options import listed_ids
from ldm.envs.alfworld import ALFWorld
from ldm.types import Task
from tools.alfworld.deps10 import EPISODES, choices, listing, places_in

GAMES = {
    "pick": "pick_and_place_simple-{}-None-{}-{}",
    "clean": "pick_clean_then_place_in_recep-{}-None-{}-{}",
    "cool": "pick_cool_then_place_in_recep-{}-None-{}-{}",
    "look": "look_at_obj_in_light-{}-None-{}-{}",
}


def game(kind: str, thing: str, place: str, number: int) -> Task:
    name = GAMES[kind].format(thing, place, number)
    return Task(f"valid_seen/{name}/trial_1", "alfworld", "valid_seen", "do it", kind)


def places(table: dict[str, int]) -> Callable[[Task], int]:
    return lambda task: table.get(task.id, 20)


def test_games_with_object_and_place_come_before_all_others() -> None:
    right = game("cool", "Tomato", "CounterTop", 1)
    others = [game("cool", thing, "CounterTop", 2) for thing in ("Egg", "Pan")]
    by_number = {one.row.number: one for one in choices([*others, right], places({}))}
    assert by_number[6].tasks == (right,)
    assert by_number[6].fits == ""
    assert set(by_number[7].tasks) == set(others)
    assert "no game has object and place" in by_number[7].fits


def test_the_nearest_in_the_number_of_places_come_first() -> None:
    games = [game("cool", "Bread", "CounterTop", number) for number in range(8)]
    sizes = {one.id: 20 + number for number, one in enumerate(games)}
    chosen = next(one for one in choices(games, places(sizes)) if one.row.number == 7)
    assert len(chosen.tasks) == EPISODES
    assert chosen.tasks[0] == games[7]  # 27 places, as printed


def test_a_look_has_no_place() -> None:
    mug = game("look", "Mug", "DeskLamp", 1)
    chosen = next(one for one in choices([mug], places({})) if one.row.number == 10)
    assert chosen.tasks == (mug,)
    assert chosen.fits == ""


def test_no_game_stands_for_two_tasks() -> None:
    games = [game("pick", thing, "Dresser", 1) for thing in ("Pen", "Box", "Mug")]
    chosen = [task for one in choices(games, places({})) for task in one.tasks]
    assert sorted(task.id for task in chosen) == sorted(task.id for task in games)


def test_the_list_is_one_that_eval_reads(tmp_path: Path) -> None:
    env = ALFWorld()
    tasks = env.tasks("demo_test")
    text = listing(list(choices(tasks, lambda task: places_in(env.reset(task).observation))))
    assert text.startswith("# 1. put some soapbottle on garbagecan (no game has object and place")
    (tmp_path / "deps10.txt").write_text(text)
    ids = listed_ids(str(tmp_path / "deps10.txt"))
    assert set(ids) <= {task.id for task in tasks}
    assert len(ids) == len(set(ids))


def test_places_are_counted_in_the_opening() -> None:
    opening = "You see a cabinet 2, a cabinet 1, an armchair 1, and a toilet 1.\nYour task is to: x"
    assert places_in(opening) == 4

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldm.agents.autoplan import AutoPlanOptions
from ldm.agents.loop import LoopOptions
from ldm.errors import LdmError
from ldm.reason.excerpts import characters
from ldm.reason.prompting import PROMPT_TOKENS
from ldm.reason.views import PART
from ldm.worlds.textcraft import TextCraft, TextCraftOptions
from ldm.worlds.textcraft.data import check
from ldm.worlds.textcraft.environment import OWN_SPLITS, Book, own_games, stored_games

GOOD = {
    "id": "env_0",
    "goal": "craft stick.",
    "commands": "Crafting commands:\ncraft 4 stick using 2 planks",
}


def write_list(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_training_and_test_share_no_item_and_make_up_all_of_depth_two_to_four(book: Book) -> None:
    train = {game.item for game in own_games("train", book)}
    test = {game.item for game in own_games("test", book)}
    assert not train & test
    assert train | test == {item for item in book.recipes if book.depth(item) >= 2}


def test_each_half_has_half_of_each_depth(book: Book) -> None:
    for split, deepest in (("train", 5), ("test", 6)):
        kinds = Counter(game.task.kind for game in own_games(split, book))
        assert kinds == {"depth2": 137, "depth3": 56, "depth4": deepest}


def test_the_leakage_gate_compares_items(book: Book) -> None:
    (task, *_) = (game.task for game in own_games("test", book))
    assert task.leak_key == task.id.partition("/")[2]


def test_no_recipe_of_an_opening_is_cut_out_of_a_prompt(book: Book) -> None:
    openings = [game.opening for split in OWN_SPLITS for game in own_games(split, book)]
    longest = max(map(len, openings))
    assert 2000 < longest <= LoopOptions().observation
    assert longest <= min(AutoPlanOptions().observation, PART * characters(PROMPT_TOKENS))


def test_the_stored_list_is_read_in_its_order(env: TextCraft) -> None:
    tasks = env.tasks("stored")
    assert [task.id for task in tasks] == [f"stored/env_{number}" for number in range(200)]
    assert Counter(task.kind for task in tasks) == {"depth2": 77, "depth3": 112, "depth4": 11}


def test_stored_tasks_for_testing_are_those_not_in_training(env: TextCraft, book: Book) -> None:
    train = {game.item for game in own_games("train", book)}
    tasks = env.tasks("stored_test")
    assert {task.source for task in tasks}.isdisjoint(train)
    assert {task.source for task in env.tasks("stored")} - train == {task.source for task in tasks}
    env.reset(tasks[0])


def test_the_results_of_the_authors_are_such_a_list(tmp_path: Path, book: Book) -> None:
    results = tmp_path / "adapt_results.json"
    entry = {"problem": GOOD["goal"], "commands": f"{GOOD['commands']}\n\n", "success": True}
    results.write_text(json.dumps({"env_7": entry}), encoding="utf-8")
    (game,) = stored_games("stored", results, book)
    assert (game.task.id, game.listing) == ("stored/env_7", GOOD["commands"])
    results.write_text(json.dumps({"env_7": entry, "env_8": {"problem": 3}}), encoding="utf-8")
    with pytest.raises(LdmError, match=r"adapt_results\.json:2:goal: "):
        stored_games("stored", results, book)
    assert check(tmp_path).facts["listed"] == {"depth1": 1}


def test_the_dev_set_holds_no_item_of_the_list_and_none_of_training(
    env: TextCraft, book: Book
) -> None:
    dev = {task.source for task in env.tasks("stored_dev")}
    assert len(dev) > 90
    assert dev.isdisjoint(task.source for task in env.tasks("stored"))
    assert dev.isdisjoint(game.item for game in own_games("train", book))
    assert {task.kind for task in env.tasks("stored_dev")} == {"depth2"}


@pytest.mark.parametrize(
    ("change", "where"),
    [({"goal": "craft a castle."}, ":1:goal:"), ({"goal": "make stick."}, ":1:goal:"),
     ({"goal": "craft string."}, ":1:goal:"), ({"goal": 7}, ":1:goal:"), ({"id": " "}, ":1:id:"),
     ({"commands": "craft 4 stick using 2 planks"}, ":1:commands:"),
     ({"commands": None}, ":1:commands:"),
     ({"commands": "Crafting commands:\nfoo bar"}, ":1:commands:"),
     ({"commands": "Crafting commands:\ncraft 4 oak planks using 1 oak logs"}, ":1:commands:")],
)  # fmt: skip
def test_a_fault_is_named(tmp_path: Path, book: Book, change: dict[str, Any], where: str) -> None:
    path = write_list(tmp_path / "tasks.jsonl", {**GOOD, **change})
    with pytest.raises(LdmError) as caught:
        stored_games("stored", path, book)
    assert f"{path}{where}" in str(caught.value)


def test_an_id_that_comes_twice_and_an_empty_list_are_refused(tmp_path: Path, book: Book) -> None:
    with pytest.raises(LdmError, match="env_0' occurs twice"):
        stored_games("stored", write_list(tmp_path / "twice.jsonl", GOOD, GOOD), book)
    with pytest.raises(LdmError, match="holds no task"):
        stored_games("stored", write_list(tmp_path / "none.jsonl"), book)
    with pytest.raises(LdmError, match="missing"):
        TextCraft(TextCraftOptions(tasks=tmp_path / "missing.jsonl")).tasks("stored")


def test_a_list_of_ones_own_is_played_as_it_is(tmp_path: Path, book: Book) -> None:
    env = TextCraft(TextCraftOptions(tasks=write_list(tmp_path / "own.jsonl", GOOD)))
    (task,) = env.tasks("stored")
    assert task.kind == "depth1"
    assert env.reset(task).observation == f"{GOOD['commands']}\n\nGoal: craft stick."
    assert env.step("get 2 bamboo").valid
    assert env.step("craft 1 stick using 2 bamboo").done
    assert env.step("get 2 bamboo").valid
    assert env.step("craft 1 stick using 2 bamboo").reward == 1.0

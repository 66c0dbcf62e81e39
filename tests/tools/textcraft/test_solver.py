from __future__ import annotations

from pathlib import Path

import pytest

from ldm import records
from ldm.envs.textcraft import TextCraft
from ldm.envs.textcraft.recipes import Book
from ldm.errors import LdmError
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tests.envs.textcraft.conftest import lines
from tools.textcraft.expert import solve
from tools.textcraft.solver import choose, listed, parsed_recipe, plan

EPISODES = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


def test_it_solves_all_stored_tasks_with_the_commands_they_list(env: TextCraft, book: Book) -> None:
    solved = 0
    for task in env.tasks("stored"):
        recipes = listed(env.reset(task).observation)
        *before, last = [env.step(action) for action in plan(task.source, recipes, book)]
        assert all(answer.valid and not answer.done for answer in before)
        solved += last.done
    assert solved == 200


def test_no_plan_is_longer_than_the_recorded_one(env: TextCraft, book: Book, golden: Path) -> None:
    tasks = env.tasks("stored")
    for episode in lines(golden / "episodes.jsonl"):
        task = tasks[episode["index"]]
        recipes = listed(env.reset(task).observation)
        assert len(plan(task.source, recipes, book)) <= len(episode["gold"])


def recipes_of(*texts: str) -> list[str]:
    return [f"craft {text}" for text in texts]


@pytest.mark.parametrize(
    ("item", "listing", "expected"),
    [
        # Seven sticks take seven crafts from bamboo, three from a log.
        (
            "ladder",
            recipes_of(
                "3 ladder using 7 stick",
                "1 stick using 2 bamboo",
                "4 stick using 2 planks",
                "4 oak planks using 1 oak logs",
            ),
            (
                "get 1 oak logs",
                "craft 4 oak planks using 1 oak logs",
                "craft 4 stick using 2 oak planks",
                "craft 4 stick using 2 oak planks",
                "craft 3 ladder using 7 stick",
            ),
        ),
        # The same planks serve the sticks and the sign.
        (
            "spruce_sign",
            recipes_of(
                "3 spruce sign using 6 spruce planks, 1 stick",
                "4 stick using 2 planks",
                "4 oak planks using 1 oak logs",
                "4 spruce planks using 1 spruce logs",
            ),
            (
                "get 2 spruce logs",
                "craft 4 spruce planks using 1 spruce logs",
                "craft 4 spruce planks using 1 spruce logs",
                "craft 4 stick using 2 spruce planks",
                "craft 3 spruce sign using 6 spruce planks, 1 stick",
            ),
        ),
    ],
)
def test_it_takes_the_fewest_actions(
    book: Book, item: str, listing: list[str], expected: tuple[str, ...]
) -> None:
    recipes = [recipe for text in listing if (recipe := parsed_recipe(text))]
    assert plan(item, recipes, book) == expected


def test_recipes_that_do_not_lead_there_are_said_so(book: Book) -> None:
    only = parsed_recipe("craft 3 ladder using 7 stick")
    assert only is not None
    with pytest.raises(LdmError, match="do not lead to ladder"):
        choose("ladder", [only], book)


def test_the_expert_looks_crafts_step_by_step_and_makes_no_mistake(env: TextCraft) -> None:
    for task in env.tasks("test")[::7]:
        episode = solve(env, task)
        first, *_, before_last, last = (step.action for step in episode.steps)
        assert first == before_last == "inventory"
        assert last.startswith("craft ")
        assert all(step.valid for step in episode.steps)
        assert episode.success
        assert [step.reward for step in episode.steps].count(1.0) == 1


def test_the_shipped_episodes_are_what_the_expert_does_in_training_tasks(env: TextCraft) -> None:
    shipped = list(records.scan(EPISODES, Trajectory))
    assert shipped == [solve(env, task) for task in env.tasks("train")]
    assert EPISODES.stat().st_size < 100_000

import pytest

from ldm import records
from ldm.envs.textcraft import TextCraft
from ldm.envs.textcraft.environment import Book
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.textcraft.expert import solve
from tools.textcraft.solver import listed, parsed_recipe, plan

EPISODES = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


def test_it_solves_all_stored_tasks_with_the_commands_they_list(env: TextCraft, book: Book) -> None:
    solved = 0
    for task in env.tasks("stored"):
        recipes = listed(env.reset(task).observation)
        *before, last = [env.step(action) for action in plan(task.source, recipes, book)]
        assert all(answer.valid and not answer.done for answer in before)
        solved += last.done
    assert solved == 200


LADDER = """craft 3 ladder using 7 stick
craft 1 stick using 2 bamboo
craft 4 stick using 2 planks
craft 4 oak planks using 1 oak logs"""
SIGN = """craft 3 spruce sign using 6 spruce planks, 1 stick
craft 4 stick using 2 planks
craft 4 oak planks using 1 oak logs
craft 4 spruce planks using 1 spruce logs"""


@pytest.mark.parametrize(
    ("item", "listing", "expected"),
    [
        # Seven sticks take seven crafts from bamboo, three from a log.
        ("ladder", LADDER, """get 1 oak logs
craft 4 oak planks using 1 oak logs
craft 4 stick using 2 oak planks
craft 4 stick using 2 oak planks
craft 3 ladder using 7 stick"""),
        # The same planks serve the sticks and the sign.
        ("spruce_sign", SIGN, """get 2 spruce logs
craft 4 spruce planks using 1 spruce logs
craft 4 spruce planks using 1 spruce logs
craft 4 stick using 2 spruce planks
craft 3 spruce sign using 6 spruce planks, 1 stick"""),
    ],
)  # fmt: skip
def test_it_takes_the_fewest_actions(book: Book, item: str, listing: str, expected: str) -> None:
    recipes = [recipe for text in listing.split("\n") if (recipe := parsed_recipe(text))]
    assert "\n".join(plan(item, recipes, book)) == expected


def test_the_shipped_episodes_are_what_the_expert_does_in_training_tasks(env: TextCraft) -> None:
    shipped = list(records.scan(EPISODES, Trajectory))
    assert shipped == [solve(env, task) for task in env.tasks("train")]
    assert EPISODES.stat().st_size < 100_000

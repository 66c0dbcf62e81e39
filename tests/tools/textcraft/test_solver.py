from ldm import records
from ldm.envs.textcraft import TextCraft
from ldm.envs.textcraft.environment import Book
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.textcraft.expert import solve
from tools.textcraft.solver import listed, plan

EPISODES = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


def test_it_solves_all_stored_tasks_with_the_commands_they_list(env: TextCraft, book: Book) -> None:
    solved = 0
    for task in env.tasks("stored"):
        recipes = listed(env.reset(task).observation)
        *before, last = [env.step(action) for action in plan(task.source, recipes, book)]
        assert all(answer.valid and not answer.done for answer in before)
        solved += last.done
    assert solved == 200


def test_the_shipped_episodes_are_what_the_expert_does_in_training_tasks(env: TextCraft) -> None:
    shipped = list(records.scan(EPISODES, Trajectory))
    assert shipped == [solve(env, task) for task in env.tasks("train")]
    assert EPISODES.stat().st_size < 100_000

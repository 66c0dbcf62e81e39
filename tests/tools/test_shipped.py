"""The data that ship are what the tools make: games, a shop, articles, and experts' episodes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.alfworld.games import own_games
from ldm.worlds.hotpotqa import HotpotQA
from ldm.worlds.hotpotqa.library import OWN_DATA as WIKI
from ldm.worlds.textcraft import TextCraft
from ldm.worlds.textcraft.environment import Book
from ldm.worlds.webshop import WebShop
from ldm.worlds.webshop.environment import OWN_DATA as SHOP
from tests.conftest import CHECKOUT
from tests.worlds.textcraft.conftest import book, env, golden, stored
from tools.alfworld import expert as householder
from tools.alfworld import game_generator
from tools.hotpotqa import expert as reader
from tools.hotpotqa import world_generator
from tools.textcraft import expert as crafter
from tools.textcraft import solver
from tools.webshop import expert as shopper
from tools.webshop import shop_generator

__all__ = ["book", "env", "golden", "stored"]

SEED = 2312_08402
EPISODES = CHECKOUT / "data" / "trajectories"


def unpacked(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


class TestHouseholds:
    def test_are_those_of_the_generator(self) -> None:
        train = game_generator.generate("demo_train", 20, seed=SEED)
        assert own_games("demo_train") == train == sorted(train, key=lambda game: game.id)
        assert own_games("demo_test") == game_generator.generate("demo_test", 10, seed=SEED)
        packed = CHECKOUT / "ldm/worlds/alfworld/demo/demo_train.jsonl.gz"
        assert packed.stat().st_size < 80_000

    def test_are_played_by_the_expert(self) -> None:
        env = ALFWorld()
        for episode in records.read(EPISODES / "alfworld/demo_train.jsonl", Trajectory)[::12]:
            assert householder.solve(env, episode.task, seed=SEED) == episode
        env.close()


class TestTheShop:
    def test_is_that_of_the_generator(self) -> None:
        items = unpacked(SHOP / "items_shuffle.json.gz")
        nouns = {item["name"]: item["title_nouns"] for item in items}
        shop = shop_generator.with_nouns(shop_generator.generate(seed=SEED), nouns)
        contents = shop_generator.files(shop)
        assert contents == {name: (SHOP / name).read_bytes() for name in contents}
        assert sum(map(len, contents.values())) < 300_000
        assert all(nouns.values())

    def test_is_visited_by_the_expert(self) -> None:
        env = WebShop()
        tasks = {task.id: task for task in env.tasks("demo_train")}
        for session in records.read(EPISODES / "webshop/demo_train.jsonl.gz", Trajectory)[::20]:
            assert shopper.solve(env, tasks[session.task.id], seed=SEED) == session


class TestQuestions:
    @pytest.fixture(scope="class")
    @staticmethod
    def world() -> world_generator.World:
        return world_generator.generate()

    def test_are_those_of_the_generator(self, world: world_generator.World) -> None:
        contents = {"wiki_articles": world.articles, **world.questions}
        for name, content in contents.items():
            assert unpacked(WIKI / f"{name}.json.gz") == content
        names = {path.name for path in WIKI.iterdir()}
        assert names == {f"{name}.json.gz" for name in contents}

    def test_are_answered_by_the_expert(self, world: world_generator.World) -> None:
        env = HotpotQA()
        for split, questions in world.questions.items():
            pairs = zip(env.tasks(split), questions, strict=True)
            episodes = [reader.solve(env, task, entry, world.articles) for task, entry in pairs]
            assert all(episode.success and 3 <= len(episode.steps) <= 7 for episode in episodes)
            if split == "demo_train":
                shipped = records.read(EPISODES / "hotpotqa/demo_train.jsonl.gz", Trajectory)
                assert episodes == shipped
                steps = [step for episode in episodes for step in episode.steps]
                assert sum(step.action.startswith("lookup[") for step in steps) >= 10
                assert sum(step.observation.startswith("Could not") for step in steps) >= 10


class TestCrafts:
    def test_of_all_stored_tasks_are_found_with_the_commands_they_list(
        self, env: TextCraft, book: Book
    ) -> None:
        solved = 0
        for task in env.tasks("stored"):
            recipes = solver.listed(env.reset(task).observation)
            way = solver.plan(task.source, recipes, book)
            *before, last = [env.step(action) for action in way]
            assert all(answer.valid and not answer.done for answer in before)
            solved += last.done
        assert solved == 200

    def test_of_training_tasks_are_made_by_the_expert(self, env: TextCraft) -> None:
        file = EPISODES / "textcraft" / "train.jsonl.gz"
        made = [crafter.solve(env, task) for task in env.tasks("train")]
        assert list(records.scan(file, Trajectory)) == made
        assert file.stat().st_size < 100_000

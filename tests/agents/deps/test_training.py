"""Training of horizon models: rows of a world, a forest that predicts them, and the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ldm.agents.deps.horizon import HorizonModel, feature_rows
from ldm.agents.deps.select import scaled
from ldm.agents.deps.training import Example, World, fit, train, worlds
from ldm.errors import LdmError
from ldm.run.horizons import HorizonSpec, train_horizon
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tests.toy import ToyEnv

OPTIONS = {"limit": "2000", "slice": "150", "start": "any", "worlds": "2"}


@pytest.fixture(scope="module")
def env() -> Minecraft:
    return Minecraft(MinecraftOptions(limit=4000, slice=150, start="any", worlds=2))


@pytest.fixture(scope="module")
def rows(env: Minecraft) -> list[Example]:
    tasks = worlds(env, "train_worlds", 12, 0)
    return [one for task in tasks for one in World(env, task, 1).examples()]


def test_a_row_says_how_long_it_still_took(rows: list[Example]) -> None:
    assert len(rows) > 40
    assert all(0 < one.ticks <= 12000 for one in rows)
    assert {one.situation.verb for one in rows} <= {"mine", "kill"}
    here = [one.ticks for one in rows if 0 <= one.situation.distance <= 5]
    unknown = [one.ticks for one in rows if one.situation.distance < 0]
    assert np.median(here) < np.median(unknown)


def test_the_same_seed_gives_the_same_rows(env: Minecraft, rows: list[Example]) -> None:
    task = worlds(env, "train_worlds", 12, 0)[0]
    again = list(World(env, task, 1).examples())
    assert again == rows[: len(again)]
    assert again != list(World(env, task, 2).examples())


def test_a_forest_predicts_what_sklearn_does(rows: list[Example]) -> None:
    from sklearn.ensemble import ExtraTreesRegressor

    model = fit(rows, "minecraft", 0)
    features = feature_rows([one.situation for one in rows], model.words)
    forest = ExtraTreesRegressor(60, min_samples_leaf=8, random_state=0, n_jobs=1)
    forest.fit(features, [scaled(one.ticks) for one in rows])
    assert np.abs(model(features) - forest.predict(features)).max() < 0.01


def test_training_tells_how_good_it_is_in_other_worlds(env: Minecraft) -> None:
    counts: list[int] = []
    trained = train(env, worlds(env, "train_worlds", 12, 0), done=counts.append)
    assert counts == list(range(1, 13))
    assert 0 < trained.error < 15
    assert 0 < trained.baseline < 15
    assert trained.worlds == 12
    assert trained.model.env == "minecraft"


def test_a_model_tells_goals_of_one_item_apart(rows: list[Example]) -> None:
    model = fit(rows, "minecraft", 0)
    truth = np.array([scaled(one.ticks) for one in rows])
    items = [one.situation.item for one in rows]
    means = {item: truth[[one == item for one in items]].mean() for item in items}
    by_item = np.abs(np.array([means[item] for item in items]) - truth).mean()
    predicted = model(feature_rows([one.situation for one in rows], model.words))
    assert np.abs(predicted - truth).mean() < 0.8 * by_item


def test_only_worlds_of_a_training_split_are_used(env: Minecraft) -> None:
    with pytest.raises(LdmError, match="not a training split"):
        worlds(env, "test", 1, 0)
    with pytest.raises(LdmError, match="has 138 worlds"):
        worlds(env, "train_worlds", 1000, 0)


def test_a_model_goes_into_a_file(tmp_path: Path) -> None:
    out = tmp_path / "model.npz"
    options = dict(**{k: v for k, v in OPTIONS.items() if k != "worlds"})
    train_horizon(HorizonSpec("minecraft", 6, env_options=options), out)
    assert HorizonModel.load(out).env == "minecraft"


def test_an_environment_without_a_controller_has_none(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="no controller"):
        train(ToyEnv(), [])
    with pytest.raises(LdmError, match="no controller"):
        train_horizon(HorizonSpec("alfworld", 2), tmp_path / "model.npz")


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    options = dict(**{k: v for k, v in OPTIONS.items() if k != "worlds"})
    with pytest.raises(LdmError, match="cannot be written"):
        train_horizon(
            HorizonSpec("minecraft", 6, env_options=options), tmp_path / "none" / "model.npz"
        )

"""Training of horizon models: rows of a world, a forest that predicts them, the command."""

from pathlib import Path

import numpy as np
import pytest

from ldm.deps.select import HorizonModel, feature_rows
from ldm.errors import LdmError
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tools.horizon import Example, World, fit, main, scaled, worlds


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


def test_a_forest_predicts_what_sklearn_does(rows: list[Example]) -> None:
    from sklearn.ensemble import ExtraTreesRegressor

    model = fit(rows, "minecraft", 0)
    features = feature_rows([one.situation for one in rows], model.words)
    forest = ExtraTreesRegressor(60, min_samples_leaf=8, random_state=0, n_jobs=1)
    forest.fit(features, [scaled(one.ticks) for one in rows])
    assert np.abs(model(features) - forest.predict(features)).max() < 0.01


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


SMALL = ("--env=minecraft", "--worlds=8", "--set=limit=2500", "--set=slice=150")


def test_the_command_writes_the_same_model_for_the_same_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json", "two.json"):
        main([*SMALL, "--seed=3", f"--out={tmp_path / name}"])
        assert "rows of 8 worlds" in capsys.readouterr().out
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert HorizonModel.load(tmp_path / "one.json").env == "minecraft"

"""Train the horizon predictor of a selector (DEPS, arXiv 2302.01560, §3.3).

    python -m tools.horizon --env minecraft --set worlds=6 --worlds 400 --out horizon.json.gz

In each world of a training split the trainer walks about for a while, and then pursues goals and
makes things at random. Whenever control returns there is a row: what the observation tells of the
goal, and how long the goal took from there. `ldm eval --agent deps --agent.horizon FILE` uses it.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.config import Section
from ldm.deps.parser import Goal, Vocabulary
from ldm.deps.select import HorizonModel, Situation, clock, feature_rows, situation, still_to_get
from ldm.envs import load_env
from ldm.episode import Environment, EnvironmentBase
from ldm.errors import LdmError
from ldm.types import Card, Task, TimeStep, stable_seed

#: The forest: trees, and rows in a leaf at least (the same for every environment).
TREES, LEAF = 60, 8
#: Walks at the start at most; actions in a world at most; counts of a goal at most.
WALKS, ACTIONS, COUNT = 5, 200, 3
#: How often something is made instead of pursuing a goal.
MAKING = 0.25


@dataclass(frozen=True, slots=True)
class Example:
    """A row of training: the situation of a goal, and the ticks until it was reached.

    They are its patience if it was not reached in that time.
    """

    situation: Situation
    ticks: int


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, and its accuracy in unseen worlds.

    error: mean absolute difference in μ; baseline: that of predicting the mean of each item.
    """

    model: HorizonModel
    worlds: int
    rows: int
    error: float
    baseline: float


def train(env: Environment, tasks: Sequence[Task], seed: int = 0) -> Trained:
    """Return a model trained in the worlds of `tasks`.

    One world in ten is held out to measure it; the model is then trained on all.
    Raise LdmError if the environment has no controller that tells times, or gives too few rows.
    """
    check(env.card)
    played = [
        list(World(env, task, stable_seed("horizon", seed, task.id)).examples()) for task in tasks
    ]
    rows = [one for world in played for one in world]
    if len(rows) < 2 * LEAF:
        raise LdmError(
            f"{len(tasks)} worlds gave {len(rows)} rows, which is too few to learn from.",
            "Train in more worlds: --worlds.",
        )
    held_out = [one for number, world in enumerate(played) if number % 10 == 0 for one in world]
    others = [one for number, world in enumerate(played) if number % 10 for one in world]
    error = baseline = 0.0
    if held_out and len(others) >= 2 * LEAF:
        error, baseline = _measured(fit(others, env.card.name, seed), others, held_out)
    return Trained(fit(rows, env.card.name, seed), len(tasks), len(rows), error, baseline)


def check(card: Card) -> None:
    """Raise LdmError if no horizon can be learnt in the environment of this card."""
    reading = card.reading
    if not Vocabulary.of(card).counted or not reading.clock or not reading.gathering:
        raise LdmError(
            f"{card.name} has no controller that pursues goals and tells the time.",
            "A horizon model needs an environment whose card lists goals to gather.",
        )


@dataclass
class World:
    """One world, in which goals are pursued at random."""

    env: Environment
    task: Task
    seed: int
    actions: int = 0
    pool: list[Goal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._card = self.env.card
        self._vocabulary = Vocabulary.of(self._card)
        self._now = TimeStep("", done=True)
        gathering = self._card.reading.gathering
        self.pool = [
            Goal(verb, item)
            for verb in sorted(self._vocabulary.items)
            if verb in gathering
            for item in sorted(self._vocabulary.items[verb])
        ]

    def examples(self) -> Iterator[Example]:
        """Play until the time is up, and yield a row each time that control returns."""
        self._now = self.env.reset(self.task)
        for _ in range(self._draw.randint(0, WALKS)):
            if self._card.reading.walks and not self._over:
                self._act(self._draw.choice(self._card.reading.walks))
        refused: set[str] = set()
        while not self._over and len(refused) < len(self.pool):
            if self._made():
                refused.clear()
                continue
            goal = replace(self._draw.choice(self.pool), count=self._draw.randint(1, COUNT))
            if goal.name in refused:
                continue
            rows = self._pursued(goal)
            if not rows:
                refused.add(goal.name)
            yield from rows

    @property
    def _over(self) -> bool:
        return self._now.done or self.actions >= ACTIONS

    def _act(self, action: str) -> None:
        self.actions += 1
        self._now = self.env.step(action)

    def _made(self) -> bool:
        """Now and then make something at random; return whether that was possible."""
        gathering = self._card.reading.gathering
        verbs = tuple(verb for verb in self._vocabulary.items if verb not in gathering)
        walks = self._card.reading.walks
        ways = [a for a in self._now.admissible or () if a.startswith(verbs) and a not in walks]
        if not ways or self._draw.random() >= MAKING:
            return False
        self._act(self._draw.choice(ways))
        return self._now.valid

    def _pursued(self, goal: Goal) -> list[Example]:
        """Pursue a goal to its end or its patience; return its rows, none if it is refused."""
        reading = self._card.reading
        patience = reading.patience.get(goal.name, reading.patience.get("", 10**9))
        begun = _tick(self._now, self._card)
        moments: list[tuple[int, Situation]] = []
        while True:
            tick = _tick(self._now, self._card)
            before = situation(goal, self._now, reading)
            self._act(self._vocabulary.action(goal))
            if not self._now.valid:
                break
            moments.append((tick, before))
            left = still_to_get(self._now, reading)
            if left == 0:
                end = _tick(self._now, self._card)
                return [Example(one, end - at) for at, one in moments]
            if left is None or self._over or _tick(self._now, self._card) - begun >= patience:
                break
            goal = replace(goal, count=left)
        # It was not reached: it takes the patience at least, unless it was the time that ended.
        return [] if self._over else [Example(one, patience) for _, one in moments]


def _tick(now: TimeStep, card: Card) -> int:
    time = clock(now.observation, card.reading)
    return time[0] if time else 0


def fit(rows: Sequence[Example], env: str, seed: int) -> HorizonModel:
    """Return a forest of `TREES` trees, drawn by `seed`, that fits rows."""
    from sklearn.ensemble import ExtraTreesRegressor

    words = tuple(sorted({word for one in rows for word in one.situation.words}))
    features = feature_rows([one.situation for one in rows], words)
    forest = ExtraTreesRegressor(
        TREES, min_samples_leaf=LEAF, random_state=seed % 2**32, n_jobs=1
    ).fit(features, _targets(rows))
    parts = [tree.tree_ for tree in forest.estimators_]
    starts = np.cumsum([0, *(part.node_count for part in parts[:-1])])
    return HorizonModel(
        env=env,
        words=words,
        roots=tuple(starts.tolist()),
        feature=_joined(np.maximum(part.feature, 0) for part in parts),
        threshold=_joined(
            np.where(part.children_right < 0, 0, part.threshold).astype(np.float32)
            for part in parts
        ),
        right=_joined(
            np.where(part.children_right < 0, 0, part.children_right + start)
            for part, start in zip(parts, starts, strict=True)
        ),
        # Rounded, so that the file is small.
        value=_joined(part.value[:, 0, 0].astype(np.float16) for part in parts),
    )


def _joined(parts: Iterable[NDArray[Any]]) -> tuple[Any, ...]:
    return tuple(np.concatenate([*parts]).tolist())


def scaled(ticks: float) -> float:
    """Return a time as μ: 2·log2(1 + h/20), cut at 15 like the 16 classes of the authors' code."""
    return min(15.0, 2 * math.log2(1 + max(0.0, ticks) / 20))


def _targets(rows: Sequence[Example]) -> NDArray[np.float64]:
    return np.array([scaled(one.ticks) for one in rows])


def _measured(
    model: HorizonModel, rows: Sequence[Example], held_out: Sequence[Example]
) -> tuple[float, float]:
    """Return the mean absolute error on held-out rows, of a model and of the means of items."""
    truth = _targets(held_out)
    predicted = model(feature_rows([one.situation for one in held_out], model.words))
    by_item: dict[str, list[float]] = {}
    for one, target in zip(rows, _targets(rows), strict=True):
        by_item.setdefault(one.situation.item, []).append(float(target))
    overall = float(np.mean(_targets(rows)))
    means = [float(np.mean(by_item.get(one.situation.item, [overall]))) for one in held_out]
    return float(np.abs(predicted - truth).mean()), float(np.abs(np.array(means) - truth).mean())


def worlds(env: EnvironmentBase, split: str, number: int, seed: int) -> list[Task]:
    """Return so many tasks of a training split, drawn by `seed`.

    Raise LdmError if it is no training split, or has fewer tasks.
    """
    if split not in env.train_splits:
        raise LdmError(
            f"{split!r} is not a training split of {env.card.name}.",
            f"Its training splits: {', '.join(env.train_splits) or 'none'}.",
        )
    known = list(env.tasks(split))
    if len(known) < number:
        raise LdmError(
            f"The split {split} has {len(known)} worlds, but {number} were requested.",
            "Ask for fewer with --worlds, or set an option of the environment that makes more.",
        )
    return random.Random(stable_seed("worlds", seed)).sample(known, number)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a model by the command line, and write it to a file."""
    parser = argparse.ArgumentParser("python -m tools.horizon")
    parser.add_argument("--env", required=True, help="environment with goals to gather")
    parser.add_argument("--out", required=True, type=Path, help="file of the model")
    parser.add_argument("--worlds", default=400, type=int, help="number of training worlds")
    parser.add_argument("--split", help="training split; default: the environment's last")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--set", default=[], action="append", metavar="NAME=VALUE")
    chosen = parser.parse_args(arguments)
    try:
        kind = load_env(chosen.env)
        values = dict(one.split("=", 1) for one in chosen.set if "=" in one)
        with closing(
            kind(Section.read(values).typed(kind.Options, f"environment {chosen.env}"))
        ) as env:
            check(env.card)
            split = chosen.split or next(reversed(env.train_splits), "")
            trained = train(env, worlds(env, split, chosen.worlds, chosen.seed), chosen.seed)
        records.write(chosen.out, [trained.model])
    except (LdmError, OSError) as error:
        parser.error(str(error))
    print(  # noqa: T201 - the output of a command
        f"{chosen.out}: {trained.rows} rows of {trained.worlds} worlds. In unseen worlds μ is off "
        f"by {trained.error:.2f}; the mean of each item is off by {trained.baseline:.2f}."
    )


if __name__ == "__main__":
    main()

"""The horizon predictor: how long a goal will take, given the observation (DEPS, §3.3).

The models are forests of regression trees as arrays, evaluated with numpy. Their features are
extracted from the observation as the environment's card defines; they use nothing hidden.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm.deps.parser import Goal
from ldm.deps.select import clock, held
from ldm.errors import LdmError
from ldm.text import Problem, parse_json, read_bytes
from ldm.types import Card, Reading, TimeStep, stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The folder of the shipped models, ENV.npz for each environment.
SHIPPED = Path(__file__).parent / "horizons"
#: Maximum bytes of a model, compressed and not, and maximum trees of a forest.
MOST_BYTES, MOST_NUMBERS, MOST_TREES = 1 << 24, 1 << 26, 1000
#: The value of a feature that the observation does not tell.
UNKNOWN = -1.0

_ENTRY = re.compile(
    r"\s*(?:(?P<count>\d+) )?(?P<thing>[a-z][a-z ]*?), (?:nearest )?(?:(?P<far>\d+)|here)"
)
_AGE = re.compile(r"(\d+) ticks ago")


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts about a goal in an observation.

    distance, age: of the nearest known source of the goal's item, in blocks and ticks. known: the
    number of known sources. tier: of the best tool for it that is held. y, left: the height and the
    remaining time. Unknown values are "" or UNKNOWN.
    """

    verb: str
    item: str
    tier: str
    biome: str
    distance: float
    age: float
    known: float
    y: float
    count: float
    left: float

    @property
    def words(self) -> tuple[str, ...]:
        """The categorical features, each with its name."""
        return (
            f"verb {self.verb}",
            f"item {self.item}",
            f"tier {self.tier}",
            f"biome {self.biome}",
        )

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.distance, self.age, self.known, self.y, self.count, self.left)


#: The names of `Situation.numbers` in a model's list of features.
NUMBERS = ("distance", "age", "known", "y", "count", "left")


def situation(goal: Goal, now: TimeStep, reading: Reading) -> Situation:
    """Return the facts about a goal in the observation."""
    text = now.observation
    place = re.search(reading.place, text, re.MULTILINE) if reading.place else None
    where = {} if place is None else place.groupdict()
    time = clock(text, reading)
    near = _nearest(_things(goal, reading), text, reading)
    return Situation(
        verb=goal.verb,
        item=goal.item,
        tier=_tier(goal, text, reading),
        biome=where.get("biome") or "",
        distance=near[0],
        age=near[1],
        known=near[2],
        y=float(where.get("y") or UNKNOWN),
        count=float(goal.count),
        left=float(time[1] - time[0]) if time else UNKNOWN,
    )


def _members(goal: Goal, reading: Reading) -> tuple[str, ...]:
    return (goal.item, *reading.families.get(goal.item, ()))


def _things(goal: Goal, reading: Reading) -> frozenset[str]:
    """Return the sources of the goal's item, in the singular.

    Those of a word for several items are theirs, unless it has a source of its own.
    """
    members = (goal.item,) if goal.item in reading.sources else _members(goal, reading)
    return frozenset(_single(reading.sources[one]) for one in members if one in reading.sources)


def _single(thing: str) -> str:
    return thing.strip().removesuffix("s")


def _nearest(things: frozenset[str], text: str, reading: Reading) -> tuple[float, float, float]:
    """Return distance and age of the nearest of these things, and the number of known ones."""
    nearest, known = (UNKNOWN, UNKNOWN), 0.0
    for line in (reading.visible, reading.remembered):
        match = re.search(line, text, re.MULTILINE) if line else None
        for entry in (match[1] if match else "").split(";"):
            parts = _ENTRY.match(entry)
            if parts is None or _single(parts["thing"]) not in things:
                continue
            age = _AGE.search(entry)
            sighting = (float(parts["far"] or 0), float(age[1]) if age else 0.0)
            known += float(parts["count"] or 1)
            if nearest[0] == UNKNOWN or sighting < nearest:
                nearest = sighting
    return (*nearest, known)


def _tier(goal: Goal, text: str, reading: Reading) -> str:
    """Return the tier of a fitting tool that is held, or its whole name if it has no tier.

    Of several tools, take the one that the goal names, or else the last by name.
    """
    sorts = [sort for one in _members(goal, reading) for sort in reading.fitting.get(one, ())]
    counts = held(text, reading) or {}
    fitting = [name for name in sorted(counts) if name.rpartition("_")[2] in sorts]
    if not fitting:
        return ""
    return (goal.tool if goal.tool in fitting else fitting[-1]).rpartition("_")[0]


@dataclass(frozen=True)
class HorizonModel:
    """A forest that predicts μ, a time on the scale of `select.scaled`.

    env: the environment that it was trained in. words: those of `Situation.words` that it knows;
    its features are these, each 1 or 0, and then `NUMBERS`. roots: the first node of each tree.
    An inner node's left child is the next node, its right child is `right`, which is 0 for leaves.
    """

    env: str
    words: tuple[str, ...]
    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]

    def features(self, goals: Sequence[Goal], now: TimeStep, card: Card) -> NDArray[np.float32]:
        """Return a row of features for each goal."""
        rows = [situation(goal, now, card.reading) for goal in goals]
        return feature_rows(rows, self.words)

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return μ for each row: the mean over the trees."""
        places = np.arange(len(rows))[:, None]
        nodes = np.repeat(self.roots[None, :], len(rows), axis=0)
        while True:
            inner = self.right[nodes] > 0
            if not inner.any():
                return np.asarray(self.value[nodes].astype(np.float64).mean(axis=1))
            values = rows[places, np.where(inner, self.feature[nodes], 0)]
            after = np.where(values <= self.threshold[nodes], nodes + 1, self.right[nodes])
            nodes = np.where(inner, after, nodes)

    def times(self, goals: Sequence[Goal], now: TimeStep, card: Card) -> list[float]:
        """Return μ of goals. Goals that gather nothing need no search: their μ is 0."""
        predicted = self(self.features(goals, now, card))
        gathering = card.reading.gathering
        return [
            float(mu) if goal.verb in gathering else 0.0
            for goal, mu in zip(goals, predicted, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Write the model; the same numbers give the same bytes."""
        about = json.dumps({"env": self.env, "words": self.words, "numbers": NUMBERS})
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                about=np.frombuffer(about.encode(), np.uint8),
                **{name: getattr(self, name) for name in _ARRAYS},
            )

    @classmethod
    def load(cls, path: Path) -> HorizonModel:
        """Return the model in a file. Raise LdmError if it holds none or is damaged."""
        content = read_bytes(path, most=MOST_BYTES)
        try:
            return _read(content)
        except _DAMAGED as error:
            raise LdmError(f"{path} holds no horizon model: {error}.", REMEDY) from error


_ARRAYS: dict[str, Any] = {
    "roots": np.int32,
    "feature": np.int16,
    "threshold": np.float32,
    "right": np.int32,
    "value": np.float32,
}
#: How to get a model, for error messages.
REMEDY = "Train one in a checkout of ldm: python -m tools.horizon --env ENV --out FILE."
#: Errors that reading a damaged archive raises.
_DAMAGED = (
    ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError, OverflowError, MemoryError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def feature_rows(situations: Sequence[Situation], words: Sequence[str]) -> NDArray[np.float32]:
    """Return situations as rows: 1 or 0 for each of `words`, then the numbers."""
    places = {word: place for place, word in enumerate(words)}
    rows = np.zeros((len(situations), len(words) + len(NUMBERS)), np.float32)
    for row, one in enumerate(situations):
        for word in one.words:
            if word in places:
                rows[row, places[word]] = 1
        rows[row, len(words) :] = one.numbers
    return rows


def _read(content: bytes) -> HorizonModel:
    """Return the model in an archive of arrays. Raise one of `_DAMAGED` if it is not one."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        if sum(part.file_size for part in parts.infolist()) > MOST_NUMBERS:
            raise ValueError("it unpacks to more than any model has")
    with np.load(io.BytesIO(content), allow_pickle=False) as parts:
        about = parse_json(parts["about"].tobytes(), "about")
        arrays = {name: parts[name] for name in _ARRAYS}
    if isinstance(about, Problem):
        raise ValueError(str(about))
    for name, kind in _ARRAYS.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise ValueError(f"{name} is not a list of {np.dtype(kind).name}")
    words = about["words"]
    named = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not named or not isinstance(about["env"], str) or about["numbers"] != list(NUMBERS):
        raise ValueError("its features are not those of this version")
    model = HorizonModel(about["env"], tuple(words), **arrays)
    _check(model)
    return model


def _check(model: HorizonModel) -> None:
    """Raise ValueError if following the trees would not end, or would leave them."""
    size = len(model.right)
    if not 0 < len(model.roots) <= MOST_TREES or not size:
        raise ValueError("it has no trees, or too many")
    if any(len(one) != size for one in (model.feature, model.threshold, model.value)):
        raise ValueError("its trees have different lengths")
    inner = np.flatnonzero(model.right)
    ahead = model.right[inner] > inner + 1
    known = (model.feature >= 0) & (model.feature < len(model.words) + len(NUMBERS))
    if not ahead.all() or (model.right >= size).any() or not known[inner].all():
        raise ValueError("its trees are damaged")
    if (model.roots < 0).any() or (model.roots >= size).any():
        raise ValueError("its trees have no root")
    if not np.isfinite(model.value).all() or not np.isfinite(model.threshold).all():
        raise ValueError("it holds values that are not numbers")


def file_digest(path: Path) -> str:
    """Return the digest of a model's file. Raise LdmError if it cannot be read."""
    return stable_hash(read_bytes(path, most=MOST_BYTES).hex())


@lru_cache(maxsize=8)
def horizon_model(path: Path) -> HorizonModel:
    """Return the model in a file, read once. Raise LdmError as `HorizonModel.load` does."""
    return HorizonModel.load(path)


def shipped(env: str) -> Path | None:
    """Return the file of the model shipped for an environment, or None if there is none."""
    path = SHIPPED / f"{env}.npz"
    return path if path.is_file() else None

"""Comparing memories: which trajectories and tuples one of them has, and what differs.

A tuple is known by its trajectory and step. Its content is all that a recall says of it: goal,
observation, action, history, outcome and provenance; not the generation that added it, nor the cell
that it is in, which depend on what else a memory holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ldm import records
from ldm.errors import MemoryStoreError
from ldm.memory.columns import NO_PAST, TEXTS, Columns, outcome_text
from ldm.memory.contents import Contents
from ldm.memory.index import Generation, IndexedTuple
from ldm.types import FULL_OUTCOME, stable_hash

if TYPE_CHECKING:
    from ldm.memory.sources import Source

#: A tuple's trajectory and step, and its number where an edited memory has several at a step.
Key = tuple[str, int, int]

_CONTENT = tuple(name for name in TEXTS if name not in ("batch", "trajectory_id"))
_USUAL = outcome_text(FULL_OUTCOME)


@dataclass(frozen=True)
class Tuples:
    """The tuples of a memory by trajectory and step, those that the generation hides left out."""

    contents: Contents
    all: bool = False

    @cached_property
    def rows(self) -> dict[Key, int]:
        """The number of each tuple's row."""
        columns = self.contents.rows.columns
        hidden = columns.named(self.contents.generation.hidden) & (not self.all)
        trajectories, steps = columns["trajectory_id"].tolist(), columns["step"].tolist()
        rows: dict[Key, int] = {}
        for number in (~hidden).nonzero()[0].tolist():
            name, step, again = columns.texts[trajectories[number]], steps[number], 0
            while (name, step, again) in rows:
                again += 1
            rows[name, step, again] = number
        return rows

    @cached_property
    def content_hashes(self) -> list[str]:
        """The hash of each row's content."""
        return list(content_hashes(self.contents.rows.columns))

    def kind(self, key: Key) -> str:
        """Return the kind of task of a tuple."""
        columns = self.contents.rows.columns
        return str(columns.texts[int(columns["kind"][self.rows[key]])])

    def row(self, key: Key) -> IndexedTuple:
        """Return a tuple in its cell."""
        return self.contents.rows[self.rows[key]]


def content_hashes(columns: Columns) -> Iterator[str]:
    """Yield the hash of each tuple's content; that of a full outcome is as that of none."""
    texts = ["" if text == _USUAL else text for text in columns.texts]
    pasts: list[str] = []
    for before, observation, action in columns.pasts.tolist():
        parent = "" if before == NO_PAST else pasts[before]
        pasts.append(stable_hash(parent, texts[observation], texts[action]))
    of_texts = zip(*(columns[name].tolist() for name in _CONTENT), strict=True)
    for numbers, past in zip(of_texts, columns["past"].tolist(), strict=True):
        history = "" if past == NO_PAST else pasts[past]
        yield stable_hash(history, *(texts[i] for i in numbers))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many trajectories or tuples two memories have.

    changed: in both, with different content; a trajectory has changed where any of its tuples has,
        or only one of the memories has it.
    """

    only_first: int = 0
    only_second: int = 0
    changed: int = 0
    same: int = 0


@dataclass(frozen=True)
class Difference:
    """How two memories of an environment differ.

    first, second: their generations; None where there is none.
    trajectories, tuples: by kind of task.
    only_first, only_second, changed: the tuples in the order of trajectory and step; of those that
        have changed, as they are in both.
    """

    first: Generation | None
    second: Generation | None
    trajectories: dict[str, Counts]
    tuples: dict[str, Counts]
    only_first: Sequence[IndexedTuple] = field(repr=False)
    only_second: Sequence[IndexedTuple] = field(repr=False)
    changed: Sequence[tuple[IndexedTuple, IndexedTuple]] = field(repr=False)

    def counts(self) -> Iterator[tuple[str, ...]]:
        """Yield, of each kind of task, (kind, noun, only first, only second, changed, same)."""
        for kind in self.tuples:
            for noun, of in (("trajectories", self.trajectories), ("tuples", self.tuples)):
                yield kind or "mixed", noun, *map(str, asdict(of[kind]).values())

    def signed(self) -> Iterator[tuple[str, IndexedTuple]]:
        """Yield the tuples: "-" with what only the first recalls, "+" the second, "~" changed."""
        yield from (("-", row) for row in self.only_first)
        yield from (("+", row) for row in self.only_second)
        yield from (("~", later) for _, later in self.changed)

    def as_json(self, *, listed: bool) -> dict[str, Any]:
        """Return JSON values. listed: with the tuples."""
        data: dict[str, Any] = {
            side: None if record is None else {"generation": record.number, "digest": record.digest}
            for side, record in (("first", self.first), ("second", self.second))
        }
        for noun, counts in (("trajectories", self.trajectories), ("tuples", self.tuples)):
            data[noun] = {kind: asdict(of_kind) for kind, of_kind in counts.items()}
        if listed:
            data["only_first"] = [records.plain(row) for row in self.only_first]
            data["only_second"] = [records.plain(row) for row in self.only_second]
            data["changed"] = [[records.plain(row) for row in pair] for pair in self.changed]
        return data


def difference(first: Contents | None, second: Contents | None) -> Difference:
    """Compare what two memories of an environment recall; None: there is none."""
    one, other = (None if contents is None else Tuples(contents) for contents in (first, second))
    keys_one, keys_other = (set() if side is None else {*side.rows} for side in (one, other))
    states: dict[Key, str] = dict.fromkeys(keys_one - keys_other, "only_first")
    states |= dict.fromkeys(keys_other - keys_one, "only_second")
    if one is not None and other is not None:
        hashes = one.content_hashes, other.content_hashes
        for key in keys_one & keys_other:
            equal = hashes[0][one.rows[key]] == hashes[1][other.rows[key]]
            states[key] = "same" if equal else "changed"
    ordered = sorted(states)
    kinds = {
        key: side.kind(key)
        for side, keys in ((other, keys_other), (one, keys_one))
        if side is not None
        for key in keys
    }
    of_trajectories: dict[str, set[str]] = {}
    for key in ordered:
        of_trajectories.setdefault(key[0], set()).add(states[key])
    kind_of = {key[0]: kinds[key] for key in reversed(ordered)}

    def listed(side: Tuples | None, state: str) -> list[IndexedTuple]:
        return [side.row(key) for key in ordered if states[key] == state] if side else []

    changed = zip(listed(one, "changed"), listed(other, "changed"), strict=True)
    return Difference(
        first.generation if first else None,
        second.generation if second else None,
        _counted(
            (kind_of[name], held.pop() if len(held) == 1 else "changed")
            for name, held in of_trajectories.items()
        ),
        _counted((kinds[key], state) for key, state in states.items()),
        listed(one, "only_first"),
        listed(other, "only_second"),
        list(changed),
    )


def difference_of(env: str, sides: Sequence[Source], numbers: Sequence[int | None]) -> Difference:
    """Compare two places' memories of `env` at these generations, None for the newest.

    Raises MemoryStoreError where neither place has one, or where a generation is missing.
    """
    if not any(env in side.environments for side in sides):
        places = " nor ".join(side.place for side in sides)
        raise MemoryStoreError(
            f"Neither {places} holds a memory of {env}.", "`ldm memory show` lists them."
        )
    contents = [
        side.read(env, number).contents if env in side.environments else None
        for side, number in zip(sides, numbers, strict=True)
    ]
    return difference(*contents)


def changes(
    earlier: Contents, later: Contents
) -> tuple[Sequence[IndexedTuple], Sequence[IndexedTuple]]:
    """Return what a later generation recalls beyond an earlier one, and what it no longer does."""
    before, after = earlier.recallable(), later.recallable()
    return later.rows.with_ids(after - before), earlier.rows.with_ids(before - after)


def _counted(states: Iterator[tuple[str, str]]) -> dict[str, Counts]:
    counter = Counter(states)
    return {
        kind: Counts(**{name: n for (of, name), n in counter.items() if of == kind})
        for kind in sorted({kind for kind, _ in counter})
    }

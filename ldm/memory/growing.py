"""A memory that an agent adds to and recalls from while it works.

Every step is in the log of episodes (`ldm.memory.log`) when `step` returns, and a finished episode
is recalled at once, beside the newest generation. When a batch of episodes has been finished, a
process of its own forms them into the next generation (`ldm.memory.folding`). What is recalled does
not depend on that: recalls are the most similar tuples of both, compared exactly.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm import records
from ldm.embed import Embedder, chosen_embedder
from ldm.embed.caching import VectorFile
from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.memory import Memory, changes, log, record
from ldm.memory.exact import Texts, View, texts_of
from ldm.memory.filters import EVERYTHING, Filter, Outcomes, Where
from ldm.memory.folding import SHARE, Order, enough
from ldm.memory.formation import texts_of as texts_of_trajectories
from ldm.memory.index import NOWHERE, Generation, check_embedder
from ldm.memory.lessons import Known, rules_of
from ldm.memory.places import newest, refuse_server
from ldm.memory.recalls import MARGIN, Recalls, Trial, arranged, unlike, weighed
from ldm.memory.recording import Content, Recording, labels, plain_text
from ldm.memory.retrieval import Query
from ldm.memory.rows import Mask, Rows, Vectors
from ldm.parallel import ForkLock, cached, process_of
from ldm.types import Origin, Recall, StateActionTuple, Task, Trajectory

if TYPE_CHECKING:
    from ldm.reason.rules import Rules

#: Episodes that make a batch unless the memory records another number (LDM²).
BATCH_SIZE = 50
#: Filters whose rules are cached.
MOST_RULES = 64
#: Seconds without an answer after which `fold` and `close` give up waiting for the other process.
PATIENCE = 3_600.0
#: Seconds for which `fold` lets that process wait for another one that writes.
FOLDING = 60.0

#: Earlier observations of an episode with the actions that followed.
Pairs = Sequence[tuple[str, str]]


class GrowingMemory:
    """A memory that an agent adds to and recalls from, safe across threads and processes.

    `len(memory)` is the number of its distinct tuples, pending episodes included.
    """

    def __init__(
        self,
        location: str,
        env: str,
        embedder: Embedder,
        batch_size: int,
        half_life: float = 0.0,
        condense: Callable[[str], str] | None = None,
    ) -> None:
        """Read the memory; callers use `open` instead."""
        self.location = str(Path(location).absolute())
        self.env = env
        self.batch_size = batch_size
        self.half_life = half_life
        self._embedder = embedder
        self._condense = condense
        self._folder = record.folder_of(self.location, env)
        self._log = log.EpisodeLog(self._folder, embedder.name)
        self._vectors = VectorFile(self._folder, embedder)
        self._rules: dict[tuple[tuple[int, ...], Filter], Rules] = {}
        self._lock = ForkLock()
        #: What forms a batch, by the process that started it: a fork of that has none.
        self._folding: dict[int, subprocess.Popen[str]] = {}
        self._view = self._updated(None)

    @classmethod
    def open(  # noqa: PLR0913 - one parameter a decision of the caller
        cls,
        location: str | os.PathLike[str],
        env: str,
        *,
        embedder: Embedder | str | None = None,
        create: bool = False,
        batch_size: int = 0,
        half_life: float = 0.0,
        condense: Callable[[str], str] | None = None,
    ) -> GrowingMemory:
        """Open a memory to add to it.

        location: a directory. env: any name, such as "support".
        embedder: the one that the memory was built with; None loads it by its recorded name.
        create: whether to begin a memory that does not exist.
        batch_size: the number of episodes that make a batch; 0 for the memory's own, or 50.
        half_life: seconds after which an outcome counts half; 0 for never.
        condense: summarises a text before it is embedded; the text itself is kept.

        Raises MemoryStoreError if there is no memory and `create` is False, it is damaged or has
        another embedder, or it is on a server.
        """
        place = os.fspath(location)
        refuse_server(place, "takes whole generations and no single episodes")
        folder = record.folder_of(place, env)
        exists = os.path.lexists(folder)
        if create and not os.path.lexists(Path(place) / record.MARK):
            with record.writing(place):
                pass
        present = record.generations(place, env)
        if not (create or exists):
            raise record.missing(place, env)
        name = present[-1].embedder if present else log.EpisodeLog(folder).embedder()
        model = chosen_embedder(embedder, name or None)
        check_embedder(env, name or model.name, model.name)
        recorded = present[-1].settings.get("batch_size", "") if present else ""
        size = batch_size or (int(recorded) if recorded.isdecimal() else 0) or BATCH_SIZE
        return cls(place, env, model, size, half_life, condense)

    def __enter__(self) -> GrowingMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        view = self._current()
        pending = {*map(texts_of, _tuples(view.memories))}
        return view.base.exact.distinct + sum(not view.base.exact.holds(one) for one in pending)

    @property
    def pending(self) -> int:
        """The number of finished episodes that are in no generation yet."""
        return len(self._current().pending)

    @property
    def newest(self) -> Memory | None:
        """The newest generation, without pending episodes."""
        base = self._current().base
        return base if base.generation >= 0 else None

    def begin(
        self,
        goal: Content,
        kind: str = "",
        *,
        source: str = "",
        origin: Origin = "agent",
        scope: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Recording:
        """Begin an episode, which is on the disk when this returns.

        kind: of the task; batches are formed by kind. source: what an evaluation must not share
            with the memory; "" for the episode itself. origin: of the actions.
        scope: whom the episode belongs to, such as {"tenant": "a"}. tags: anything to filter by.

        Raises TypeError or ValueError for a text that cannot be kept, MemoryStoreError if the log
        cannot be written.
        """
        name = secrets.token_hex(8)
        texts = plain_text("goal", goal), plain_text("kind", kind), plain_text("source", source)
        task = Task(log.task_id(name), self.env, log.SPLIT, *texts)
        first = log.Begin(
            name, task, origin, log.present(), labels("scope", scope), labels("tags", tags)
        )
        self._append([first])
        return Recording(self, first, [])

    def resume(self, episode: str) -> Recording:
        """Continue an episode that was not finished, from any process.

        Raises MemoryStoreError if there is no such episode.
        """
        parts = self._current().episodes.running.get(episode)
        if parts is None:
            raise MemoryStoreError(
                f"The memory of {self.env} at {self.location} has no unfinished episode"
                f" {episode!r}.",
                f"Unfinished are: {', '.join(self.unfinished) or 'none'}.",
            )
        first, steps = parts
        return Recording(self, first, [*steps])

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The ids of episodes that were begun and not finished; they are not recalled."""
        return tuple(self._current().episodes.running)

    @contextmanager
    def record(self, goal: Content, kind: str = "", **more: Any) -> Iterator[Recording]:
        """Record an episode: `with memory.record(goal) as episode: episode.step(…)`.

        It is finished when the block ends, unless with an exception: an error of the program says
        nothing about the actions. A failed episode ends with `finish(score=0)`.

        kind, more: as in `begin`.

        Raises LdmError if the episode has neither a score nor rewards.
        """
        episode = self.begin(goal, kind, **more)
        yield episode
        if episode.steps and not episode.finished:
            episode.finish()

    def add(self, trajectory: Trajectory) -> bool:
        """Add a whole trajectory durably; it is recalled at once.

        A score of 0 or less is a failure: its tuples are warnings against their actions.

        Returns False if the memory recalls it already.
        Raises ValueError if it is of another environment, holds no action or a text that is too
        long, MemoryStoreError if it cannot be written.
        """
        if trajectory.task.env != self.env:
            raise ValueError(f"the trajectory is of {trajectory.task.env}, not of {self.env}")
        if not any(step.action for step in trajectory.steps):
            raise ValueError("the trajectory holds no action")
        texts = [trajectory.task.goal, trajectory.opening]
        texts += [text for step in trajectory.steps for text in (step.action, step.observation)]
        if max(map(len, texts)) > log.MAX_TEXT:
            raise ValueError(f"a text has more than {log.MAX_TEXT:,} characters")
        view = self._current()
        if view.holds(trajectory.id):
            ids = _of_episode(view.base, trajectory.id)
            if not ids or not ids <= {*view.base.record.hidden}:
                return False
            changes.show(self.location, self.env, ids)
            return True
        self._append([log.Add(trajectory, log.present())], texts_of_trajectories([trajectory]))
        return True

    def recall(  # noqa: PLR0913 - one parameter a decision of the caller
        self,
        goal: Content,
        observation: Content,
        k: int = 5,
        history: Sequence[tuple[Content, Content]] = (),
        *,
        where: Where | None = None,
        kind: str | None = None,
        min_similarity: float | None = None,
        outcomes: Outcomes = "any",
        utility: bool = True,
    ) -> Recalls:
        """Recall the `k` distinct tuples that say most about what to do in a state.

        Most are of the action that the memory's episodes teach for it, once they are enough to
        learn from (`ldm.reason.relevance`); the most similar tuple is always among them.

        history: earlier (observation, action) pairs of the episode, which matter as much.
        where: conditions on scope, tags, "source", "origin" and "episode".
        kind: only tuples of this kind; None for all.
        min_similarity: the least mean cosine of goal and observation, in [-1, 1]. By default
            nothing is recalled if even the nearest is less similar than two states of the memory
            are by chance; `Recalls.why` says so.
        outcomes: "any", or only tuples of "success" or of "failure".
        utility: whether those of the recalls that newer evidence contradicts come last.

        Returns at most `k` recalls with their evidence, those of the most probable action first,
        and of each action the most similar first.
        Raises ValueError if `k` is below 1.
        """
        if k < 1:
            raise ValueError(f"k must be 1 or more (got {k})")
        texts = [plain_text("goal", goal), plain_text("observation", observation)]
        past = [(plain_text("observation", o), plain_text("action", a)) for o, a in history]
        vectors = self._embed(texts)
        view = self._current()
        accepted = Filter.of(where, kind, outcomes)
        query = Query(texts[0], texts[1], vectors[texts[0]], vectors[texts[1]])
        candidates = [one for part in view.parts for one in part.exact.nearest(query, k, accepted)]
        nearest = _distinct(candidates, past)[:k]
        first = nearest[0] if nearest else None
        least = view.base.familiar if min_similarity is None else -1.0
        if first is not None and first.similarity < least:
            return Recalls(texts[0], texts[1], (), unlike(first.similarity, least))
        probable = self._probable(view, texts, past, first, kind or "")
        if probable:
            more = view.base.exact.nearest(query, k, accepted, probable)
            nearest = _distinct([*nearest, *more], past)
        floor = -2.0 if min_similarity is None else min_similarity
        chosen = [one for one in nearest if one.similarity >= floor]
        recalls = self._weighed(view, chosen, query, accepted)
        if probable:
            recalls = arranged(recalls, probable, k)
        if utility:
            recalls.sort(key=lambda one: one.evidence is not None and one.evidence.lately_failed)
        return Recalls(texts[0], texts[1], tuple(recalls))

    def _probable(
        self, view: View, state: Sequence[str], past: Pairs, nearest: Recall | None, kind: str
    ) -> str:
        """Return the most probable form of an action in a state; "" if nothing is learnt yet.

        state: goal and observation. Without a past, a state whose `nearest` had one is not taken
            for the first of an episode: nothing is known then.
        """
        goal, observation = state
        relevance = view.base.contents.relevance
        if relevance is None or nearest is None or (nearest.tuple.history.past and not past):
            return ""
        of_kind = view.base.kind_of(goal, kind)
        return relevance.form(relevance.situation(goal, of_kind, tuple(past), observation))

    async def arecall(self, goal: Content, observation: Content, **more: Any) -> Recalls:
        """Recall in a thread of its own; as `recall`."""
        return await asyncio.to_thread(self.recall, goal, observation, **more)

    def feedback(self, of: str | Iterable[Recall], reward: float) -> None:
        """Add the reward of what was based on recalls to their evidence.

        of: the result of `recall` or the followed ones of it; or the id of such a result, or of an
            episode, days later and from any process.
        reward: in [-1, 1]; 1 counts as one success, -1 as one failure.

        Raises ValueError for another reward, MemoryStoreError for an unknown id.
        """
        if not -1 <= reward <= 1:
            raise ValueError("a reward is a number from -1 to 1")
        ids = dict.fromkeys(self._ids_of(of) if isinstance(of, str) else (one.id for one in of))
        if ids:
            self._append([log.Rate(tuple(ids), float(reward), log.present())])

    def holds(self, of: str, *, where: Where | None = None) -> bool:
        """Return whether all tuples of a result of `recall`, or of an episode, match `where`.

        of: an id, as in `feedback`; of an unknown one nothing matches.
        """
        try:
            ids = frozenset(self._ids_of(of))
        except MemoryStoreError:
            return False
        accepted, held = Filter.of(where), set[str]()
        for part in self._current().parts:
            held |= part.rows.take(part.rows.named(ids) & part.exact.mask(accepted)).ids
        return bool(ids) and held == ids

    def correct(self, episode: str, *, score: float) -> None:
        """Replace the score of a finished episode, days later and from any process.

        episode: its id, or the id of an added trajectory. score: in [0, 1].

        Raises ValueError for another score, MemoryStoreError if there is no such episode.
        """
        if not 0 <= score <= 1:
            raise ValueError("a score is a number from 0 to 1")
        if episode.startswith(Recalls.PREFIX):
            raise self._unknown(episode)
        ids = frozenset(self._ids_of(episode))
        parts = self._current().parts
        first = next(one for part in parts for one in part.rows.take(part.rows.named(ids)).tuples)
        recorded = first.task_id.startswith(log.task_id(""))
        name = first.task_id.removeprefix(log.task_id("")) if recorded else first.trajectory_id
        self._append([log.Correct(name, float(score), log.present())])
        with record.writing(self.location, FOLDING):
            pass  # who forms a batch now has read the former score
        if folded := self._current().base.rows.ids & ids:
            changes.rewrite_outcomes(self.location, self.env, folded, score)

    def forget(
        self, *, where: Where | None = None, episodes: Iterable[str] = (), purge: bool = False
    ) -> int:
        """Forget the tuples that match; return their number.

        where: as in `recall`. episodes: ids of episodes or of added trajectories.
        purge: whether to erase them from the disk as well, with their episodes in the log.

        Both must hold if both are given.

        Raises ValueError if nothing is named, or episodes are in both.
        """
        names = [name for name in episodes if self._ids_of(name)]
        if not (where or names) or (names and where and "episode" in where):
            raise ValueError("name what to forget: where=… or episodes=…, episodes in one of them")
        accepted = Filter.of({**(where or {}), **({"episode": names} if names else {})})
        return self._forget(accepted.mask, accepted.takes, purge=purge)

    def expire(self, before: float) -> int:
        """Erase the episodes that ended before a time (seconds since 1970); return the tuples."""
        running = self._current().episodes.running
        return self._forget(
            lambda rows: (rows.columns["time"] > 0) & (rows.columns["time"] < before),
            lambda one: one.episode in running and one.time < before,
            purge=True,
        )

    def _forget(
        self, chosen: Callable[[Rows], Mask], began: Callable[[log.Begin], bool], *, purge: bool
    ) -> int:
        """Forget tuples; erase also the episodes of which there are none, which began so."""
        self.fold()
        base = self._current().base
        matches = chosen(base.rows) if purge else chosen(base.rows) & base.visible
        ids = base.rows.take(matches).ids
        if purge:
            events = [event for _, event in self._log.read()[0]]
            names = [one.episode for one in events if isinstance(one, log.Begin) and began(one)]
            if ids or names:
                changes.purge(self.location, self.env, ids, episodes=names, everything=True)
        elif ids:
            more: dict[str, Any] = {"settings": {}, "origin": "forgotten", "everything": True}
            changes.hide(self.location, base.record, ids, **more)
        return len(ids)

    def export(self, path: str | os.PathLike[str], *, where: Where | None = None) -> int:
        """Write the episodes that match to a JSONL file of trajectories; return their number.

        Tuples that were formed from files are not episodes: `ldm memory export` writes them.
        """
        finished = log.Episodes().take(event for _, event in self._log.read()[0])
        accepted = Filter.of(where)
        chosen = [one for one in finished.values() if accepted.takes(one)]
        return records.write(Path(path), chosen)

    def stats(self, *, where: Where | None = None) -> dict[str, float]:
        """Return the numbers of episodes, tuples and outcomes that match `where`."""
        view = self._current()
        accepted = Filter.of(where)
        tuples = _tuples(view.parts, accepted)
        scores = {one.trajectory_id: one.outcome.score for one in tuples if one.outcome}
        return {
            "episodes": len({one.trajectory_id for one in tuples}),
            "tuples": len({*map(texts_of, tuples)}),
            "succeeded": sum(score >= 1 for score in scores.values()),
            "failed": sum(score <= 0 for score in scores.values()),
            "pending": sum(accepted.takes(one) for one in [*view.pending.values()]),
            "unfinished": sum(accepted.takes(one) for one, _ in [*view.episodes.running.values()]),
        }

    def kinds(self, *, where: Where | None = None) -> dict[str, int]:
        """Return each kind of task with the number of its episodes that match `where`."""
        accepted = Filter.of(where)
        of_episodes = {x.trajectory_id: x.kind for x in _tuples(self._current().parts, accepted)}
        return dict(sorted(Counter(of_episodes.values()).items()))

    def rules(self, kind: str | None = None, *, where: Where | None = None) -> Rules:
        """Return in words what its tuples teach; the first call takes seconds, or a minute.

        Later calls return the same until the next generation is formed.

        kind: only of this kind of task; None for all. where: learnt from these tuples alone.
        """
        view, accepted = self._current(), Filter.of(where)
        key, tuples = (view.states[0], accepted), partial(_tuples, view.parts, accepted)
        return cached(self._rules, key, lambda: rules_of(tuples()), MOST_RULES).of_kind(kind)

    def fold(self) -> Generation | None:
        """Form all finished episodes into the next generation, which commands see.

        Returns the newest generation, or None if there is none.
        Raises MemoryStoreError if it cannot be written, or another process is writing.
        """
        self.close()
        if self._current().pending:
            self._start_folding(patience=FOLDING)
            self.close()
        return self.newest.record if self.newest else None

    def close(self) -> None:
        """Wait until no batch is being formed or full; the memory stays usable.

        Raises MemoryStoreError if it could not be formed.
        """
        left = -1
        while process := self._folding.pop(os.getpid(), None):
            _check_folded(process)
            before, left = left, self.pending
            if left == before:  # another process is at it, or it is not possible now
                return
            # What is learnt must not depend on how fast batches were formed meanwhile.
            if left >= SHARE * (left + len(self._current().base.contents.trajectories)):
                self._start_folding()
            self._fold_when_full()

    # What `Recording` needs.

    def _append(self, events: Sequence[log.Event], texts: Sequence[str] = ()) -> None:
        """Append events to the log. texts: those of the episode that they complete."""
        self._embed(texts)  # no lock is held meanwhile; the embedder remembers them
        with self._lock:
            record.check_memory(self.location)  # it may have been moved meanwhile
            self._log.append(events)
            self._view = self._updated(self._view)
        if texts:
            self._fold_when_full()

    def _embed(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of texts, or of what `condense` makes of them."""
        condensed = [self._condense(text) for text in texts] if self._condense else texts
        return dict(zip(texts, self._embedder.embed(condensed), strict=True))

    def _current(self) -> View:
        """Return the searchable state, updated if a file has changed."""
        if self._states() == self._view.states:
            return self._view
        with self._lock:
            self._view = self._updated(self._view)
            return self._view

    def _states(self) -> tuple[tuple[int, ...], ...]:
        return record.status(self._folder / record.FILE), self._log.status()

    def _updated(self, view: View | None) -> View:
        """Return the present state. view: the one before, of which this may be the rest."""
        states = self._states()
        if view is not None and view.states[0] == states[0]:
            events, place = self._log.read(view.place)
            corrected = any(isinstance(one, log.Correct) for _, one in events)
            first = min((at for at, _ in events), default=place.end)
            if place.log == view.place.log and first >= view.place.end and not corrected:
                view.place = NOWHERE  # if this fails, all is read anew
                view.take(events, self._vectors_of)
                view.place, view.states = place, states
                return view
        base = Memory(newest(self.location, self.env, self._embedder), self._embedder)
        made = View(base, self._embedder)
        events, made.place = self._log.read(made.place, rated=True)
        made.take(events, self._vectors_of)
        made.states = states
        return made

    def _vectors_of(self, texts: Sequence[str]) -> Mapping[str, Vectors]:
        """Return the vectors of texts of the log, which are computed once."""
        return self._vectors.vectors(texts, self._embed)

    def _weighed(
        self, view: View, chosen: Sequence[Recall], query: Query, accepted: Filter
    ) -> list[Recall]:
        """Return recalls with their evidence."""
        parts, now = [part.exact for part in view.parts], log.present()
        recalls, latest = [], dict[str, list[Trial]]()
        for one in chosen:
            action, least = one.tuple.action, one.similarity - MARGIN
            if action not in latest:  # with the margin of the most similar one
                about = action, query, least, view.rated, accepted
                latest[action] = [trial for part in parts for trial in part.trials_of(*about)]
            texts = texts_of(one.tuple)
            own = [x for part in parts for x in part.trials(texts, view.rated, accepted)]
            evidence = weighed(own, latest[action], now=now, half_life=self.half_life)
            recalls.append(replace(one, evidence=evidence))
        return recalls

    def _ids_of(self, name: str) -> list[str]:
        """Return the ids of the tuples of a recall, an episode or an added trajectory."""
        if name.startswith(Recalls.PREFIX):
            return Recalls.ids_in(name)
        ids = [one for part in self._current().parts for one in sorted(_of_episode(part, name))]
        if not ids:
            raise self._unknown(name)
        return ids

    def _unknown(self, name: str) -> MemoryStoreError:
        return MemoryStoreError(
            f"The memory of {self.env} at {self.location} has no finished episode {name!r}.",
            "Name the `id` of an episode or of a result of `recall`.",
        )

    def _fold_when_full(self) -> None:
        """Start to form a batch if enough episodes were finished, unless that is going on."""
        with self._lock:
            done = self._folding.get(os.getpid())
            if done is not None and done.poll() is None:
                return
            self._folding.pop(os.getpid(), None)
            least = enough(self.batch_size, len(self._view.base.contents.trajectories))
            if len(self._view.pending) >= least:
                self._start_folding(least)
        if done is not None:
            _check_folded(done)

    def _order(self, least: int, patience: float) -> tuple[Order, Known]:
        """Return the order to form the pending episodes, and the vectors of their texts."""
        vectors = dict[str, Vectors]()
        for one in self._view.memories:
            vectors |= one.contents.vectors_of_texts()
        known = Known(self._embedder.name, self._embedder.dimension, vectors)
        what = self.location, self.env, known.name, (*vectors,), (*self._view.pending,)
        return Order(*what, self.batch_size, least, patience), known

    def _start_folding(self, least: int = 1, patience: float = 0.0) -> None:
        """Start the process that forms a batch.

        least, patience: see `ldm.memory.folding.Order`.
        """
        order, known = self._order(least, patience)
        with tempfile.TemporaryFile() as file:
            file.write(records.dumps(order).encode() + b"\n")
            np.save(file, known.embed(order.texts))
            file.seek(0)
            self._folding[os.getpid()] = process_of(
                "ldm.memory.folding",
                stdin=file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the agent's terminal loses no batch
            )


def _tuples(parts: Iterable[Memory], accepted: Filter = EVERYTHING) -> list[StateActionTuple]:
    """Return the visible and accepted tuples of memories."""
    return [one for part in parts for one in part.rows.take(part.exact.mask(accepted)).tuples]


def _of_episode(memory: Memory, name: str) -> frozenset[str]:
    """Return the ids of the tuples, hidden ones included, of an episode or added trajectory."""
    return memory.rows.take(Filter.of({"episode": name}).mask(memory.rows)).ids


def _check_folded(process: subprocess.Popen[str]) -> None:
    """Wait for the end of folding; raise MemoryStoreError if it failed."""
    _, output = process.communicate(timeout=PATIENCE)
    if not (status := process.returncode):
        return
    lines = output.strip().splitlines() or [""]
    try:
        message, remedy = json.loads(lines[-1])
    except ValueError:
        killed = f"it was stopped by signal {-status}" if status < 0 else lines[-1][:300]
        message = f"A batch could not be formed: {killed}."
        remedy = "Nothing is lost: `ldm memory fold` forms it."
    error = MemoryLocked if "nother process is writing" in message else MemoryStoreError
    raise error(message, remedy)


def _distinct(nearest: Iterable[Recall], past: Pairs) -> list[Recall]:
    """Return recalls of distinct texts, the most similar first, equal ones by their past."""
    ordered = sorted(
        nearest,
        key=lambda one: (-one.similarity, _differs(one.tuple, past), -one.tuple.time, one.id),
    )
    distinct: dict[Texts, Recall] = {}
    for one in ordered:
        distinct.setdefault(texts_of(one.tuple), one)
    return [*distinct.values()]


def _differs(one: StateActionTuple, past: Pairs) -> int:
    """Return how many of the last actions of a past a tuple's own does not share."""
    own = one.history.past[-len(past) :] if past else ()
    both = zip(reversed(own), reversed(past), strict=False)
    return max(len(own), len(past)) - sum(mine == theirs for (_, mine), (_, theirs) in both)

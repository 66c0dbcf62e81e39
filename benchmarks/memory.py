"""Measure memories of several sizes side by side: ours, Chroma, brute force, an approximate index.

    python benchmarks/memory.py --memory .ldm/expert-memory --sizes 1000 20000 100000 1000000

The tuples are those of a real memory: some of its batches where there are fewer, and copies of all
where there are more. In a copy the numbers of things are others, and each vector of an observation
is a little different (cosine 0.99), as those of another text; goals stay. The states that are asked
for are those of whole episodes, one step after the other, with vectors of their own. Each memory is
measured in a process of its own. `--only` measures one of them, `--queries` sets the episodes.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import gc
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ldm.embed import load_embedder
from ldm.memory import Memory, chroma, extend, inspect, record
from ldm.memory.index import IndexedTuple
from ldm.memory.lessons import Contents
from ldm.memory.retrieval import Query
from ldm.memory.rows import Rows, RowsBuilder
from ldm.reason.relevance import Relevance
from ldm.types import stable_seed

ENV = "alfworld"
#: The largest memory of which the others are measured: they take hours beyond.
LARGEST = {"chroma-where": 100_000}
#: How far the vector of a varied text is from the real one's.
NOISE = 0.14
K = 5


class KnownVectors:
    """An embedder that knows the vectors of the texts it is asked for."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name = name
        self.dimension = dimension
        self.vectors: dict[str, np.ndarray] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self.vectors[text] for text in texts])


def varied(text: str, copy: int) -> str:
    """Return a text with other numbers of things."""
    return re.sub(r"\b(\d+)\b", lambda m: f"{int(m[1]) + 40 * copy}", text) if copy else text


def varied_vectors(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Return (n, d) unit vectors near the given ones."""
    noise = np.random.default_rng(seed).standard_normal(vectors.shape, np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    moved = vectors + np.float32(NOISE) * noise
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def copy_of(contents: Contents, copy: int) -> tuple[list[IndexedTuple], np.ndarray]:
    """Return the tuples of a varied copy, and their vectors, (n, 2 · dimension)."""
    if copy == 0:
        vectors = contents.rows.vectors_of(slice(None))
        return list(contents.rows), vectors.reshape(len(vectors), 2, -1)
    rows = []
    pasts: dict[int, tuple[tuple[str, str], ...]] = {}
    for row in contents.rows:
        one = row.tuple
        past = pasts.setdefault(
            id(one.history.past),
            tuple((varied(o, copy), varied(a, copy)) for o, a in one.history.past),
        )
        source = replace(
            one,
            history=replace(one.history, past=past),
            observation=varied(one.observation, copy),
            action=varied(one.action, copy),
            task_id=f"{one.task_id}~{copy}",
            source=f"{one.source}~{copy}",
            trajectory_id=f"{one.trajectory_id[:12]}{copy:04x}",
        )
        rows.append(replace(row, tuple=source, batch=f"{row.batch}~{copy}"))
    columns, vectors = contents.rows.columns, contents.rows.vectors
    distinct = varied_vectors(vectors, copy)
    of_goals = vectors[columns["goal_vector"]]
    return rows, np.stack([of_goals, distinct[columns["observation_vector"]]], axis=1)


def reduced(contents: Contents, size: int) -> Contents:
    """Return some batches, the kinds in turn, with about `size` tuples."""
    spans = {name: span for (name, *types), span in contents.rows.spans().items() if not types}
    names = sorted(spans, key=lambda name: (name.rpartition("-")[2], name))
    numbers: list[int] = []
    chosen = []
    for name in names:
        if len(numbers) >= size:
            break
        numbers += range(spans[name].start, spans[name].stop)
        chosen.append(name)
    empty = replace(contents, batches=())
    mask = np.zeros(len(contents.rows), np.bool_)
    mask[numbers] = True
    rows = contents.rows.take(mask)
    batches = tuple(b for b in contents.batches if b.id in chosen)
    return replace(empty, batches=batches, rows=rows)


def states_of(contents: Contents, episodes: int) -> list[tuple[str, str, int]]:
    """Return goal, observation and row of each step of some episodes, in order."""
    columns = contents.rows.columns
    of = columns["trajectory_id"]
    states = []
    for number in random.Random(0).sample(sorted(set(of.tolist())), episodes):
        rows = sorted(np.flatnonzero(of == number).tolist(), key=lambda i: columns["step"][i])
        for i in rows:
            one = contents.rows[i].tuple
            states.append((one.goal, one.observation, i))
    return states


def resident() -> float:
    """Return the MiB that this process occupies, what it reads of mapped files included."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def drop_caches() -> bool:
    """Have the system forget what it read from the disk; return whether it did."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def bytes_of(place: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that `work` takes, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def build_ours(contents: Contents, size: int, place: Path, *, published: bool) -> dict[str, float]:
    """Write a memory with about `size` tuples; return tuples a second and seconds of commits.

    published: whether to publish it to Chroma, which takes most of the time.
    """
    shutil.rmtree(place, ignore_errors=True)
    copies = max(1, round(size / len(contents.rows)))
    base = reduced(contents, size) if size < len(contents.rows) else contents
    builder = RowsBuilder(Rows.empty(ENV, base.generation.dimension))
    batches = []
    for copy in range(copies):
        builder.add_rows(*copy_of(base, copy))
        for batch in base.batches:
            name = f"{batch.id}~{copy}" if copy else batch.id
            batches.append(replace(batch, id=name, generation=0))
    rows = builder.collected()
    ordered = tuple(sorted(batches, key=lambda batch: batch.id))
    made = replace(base.generation, number=0, tuples=len(rows), hidden=(), tasks=())
    made = replace(made, digest=rows.digest(made, ordered))
    # Without learning, which is measured elsewhere.
    whole = Contents((made,), ordered, rows, relevance=Relevance())
    with record.writing(str(place)):
        committing, _ = timed(lambda: record.commit(str(place), whole))
    built = {"tuples": len(rows), "commit_s": committing, "disk_mb": bytes_of(place) / 1e6}
    if published:
        publishing, _ = timed(lambda: chroma.publish(whole, chroma.beside(str(place))))
        built["published_per_s"] = len(rows) / publishing
        built["chroma_mb"] = bytes_of(place / record.CHROMA) / 1e6
    rows, more = copy_of(reduced(contents, 1000), 9_999)
    embedder = KnownVectors(made.embedder, made.dimension)
    for row, vector in zip(rows, more, strict=True):
        goal, observation = vector
        embedder.vectors |= {row.tuple.goal: goal, row.tuple.observation: observation}
    rows = [
        replace(row, tuple=replace(row.tuple, generation=1), batch=row.batch.partition("~")[0])
        for row in rows
    ]
    if published:
        extending, _ = timed(
            lambda: extend(str(place), made, rows, embedder, tasks=(), settings={})
        )
        built[f"extend_by_{len(rows)}_s"] = extending
    return built


def measure(name: str, place: Path, states: list[tuple[str, str, np.ndarray]]) -> dict[str, Any]:
    """Open a memory and recall; called in a process of its own."""
    openers = {
        "ours": open_ours,
        "exact": open_exact,
        "server": open_server,
        "brute-force": open_brute_force,
        "chroma-where": open_chroma,
        "usearch": open_usearch,
    }
    load_embedder().embed(["what agents have loaded anyway"])
    libc = ctypes.CDLL("libc.so.6")
    gc.collect()
    libc.malloc_trim(0)
    before = resident()
    opening, recall = timed(lambda: openers[name](place, states))
    after_opening = resident() - before
    recall(*states[0])
    first = timed(lambda: recall(*states[1]))[0]
    seconds = [timed(lambda: recall(*state))[0] for state in states]  # noqa: B023
    moved = loopback()
    warm = [timed(lambda: recall(*state))[0] for state in states]  # noqa: B023
    return {
        "kb_moved_per_recall": (loopback() - moved) / len(states) / 1e3 if name == "server" else 0,
        "open_s": opening,
        "resident_mib": after_opening,
        "resident_after_mib": resident() - before,
        "p50_ms": float(np.percentile(warm, 50)) * 1e3,
        "p99_ms": float(np.percentile(warm, 99)) * 1e3,
        "p50_first_pass_ms": float(np.percentile(seconds, 50)) * 1e3,
        "p99_first_pass_ms": float(np.percentile(seconds, 99)) * 1e3,
        "second_recall_ms": first * 1e3,
    }


Recall = Callable[[str, str, np.ndarray], Any]


def open_ours(place: Path, states: list[tuple[str, str, np.ndarray]]) -> Recall:
    """Open as agents do; the embedder's work is left out for all."""
    memory = Memory.open(str(place), ENV, embedder=known_vectors(place, states))
    return lambda goal, observation, _: memory.retrieve(goal, observation, K)


def known_vectors(place: Path, states: list[tuple[str, str, np.ndarray]]) -> KnownVectors:
    """Return an embedder that knows the texts of the states."""
    name = json.loads((place / "states.json").read_text())["embedder"]
    embedder = KnownVectors(name, states[0][2].shape[0] // 2)
    for goal, observation, vector in states:
        one, other = np.split(vector, 2)
        embedder.vectors |= {goal: one, observation: other}
    return embedder


def open_exact(place: Path, states: list[tuple[str, str, np.ndarray]]) -> Recall:
    """Recall exactly over all kinds, as a growing memory does."""
    contents = inspect(str(place), ENV)
    known = KnownVectors(contents.generation.embedder, contents.generation.dimension)
    memory = Memory(contents, known)
    return lambda _goal, _observation, vector: memory.exact.nearest(
        Query("", "", *np.split(vector, 2)), K
    )


def open_server(place: Path, states: list[tuple[str, str, np.ndarray]]) -> Recall:
    """Query a server to which the memory is published; it ends with this process."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--path", f"{place}-served"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)  # noqa: S603 - Chroma itself
    atexit.register(process.kill)
    for _ in range(300):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    address, embedder = f"http://127.0.0.1:{port}", known_vectors(place, states)
    chroma.publish(inspect(str(place), ENV), address)
    memory = Memory.open(address, ENV, embedder=embedder)
    return lambda goal, observation, _: memory.retrieve(goal, observation, K)


def loopback() -> int:
    """Return the bytes that this machine has sent to itself."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if "lo:" in line)
    return int(line.split()[9])


def open_brute_force(place: Path, _: object) -> Recall:
    """Compare with all vectors, and look up the best."""
    contents = inspect(str(place), ENV)
    vectors = contents.rows.vectors_of(slice(None))

    def recall(_goal: str, _observation: str, vector: np.ndarray) -> Any:
        products = vectors @ vector
        best = np.argpartition(-products, K)[:K]
        return [contents.rows[int(i)] for i in best[np.argsort(-products[best])]]

    return recall


def cells_of(place: Path) -> Callable[[str, str, np.ndarray], list[str]]:
    """Return the function from a state to the cells that our index would search."""
    contents = inspect(str(place), ENV)
    memory = Memory(
        contents, KnownVectors(contents.generation.embedder, contents.generation.dimension)
    )
    from ldm.memory.retrieval import Query

    def cells(goal: str, observation: str, vector: np.ndarray) -> list[str]:
        query = Query(goal, observation, *np.split(vector, 2))
        named = memory._retriever.classify(query, memory.batches_for(goal))
        return [f"{batch}/{g}/{o}" for batch, g, o in named]

    return cells


def open_chroma(place: Path, states: list[tuple[str, str, np.ndarray]]) -> Recall:
    """Ask Chroma for the nearest `where` the tuple is in one of the cells."""
    import chromadb

    by_cell = json.loads((place / "cells.json").read_text())
    collection = chromadb.PersistentClient(str(place / "chroma-where")).get_collection("tuples")
    known = {(g, o): cells for g, o, cells in by_cell}

    def recall(goal: str, observation: str, vector: np.ndarray) -> Any:
        where = {"cell": {"$in": known[goal, observation]}}
        return collection.query([vector], n_results=K, where=where)

    return recall


def build_chroma(place: Path, states: list[tuple[str, str, np.ndarray]]) -> float:
    """Write the tuples as a program with Chroma alone would; return tuples a second."""
    import chromadb

    contents = inspect(str(place), ENV)
    client = chromadb.PersistentClient(str(place / "chroma-where"))
    cells = [f"{row.batch}/{row.goal_type}/{row.observation_type}" for row in contents.rows]
    started = time.perf_counter()
    collection = client.create_collection("tuples", configuration={"hnsw": {"space": "ip"}})
    for start in range(0, len(cells), 2_000):
        write(collection, contents, cells, slice(start, start + 2_000))
    rate = len(cells) / (time.perf_counter() - started)
    find = cells_of(place)
    listed = [(goal, observation, find(goal, observation, v)) for goal, observation, v in states]
    (place / "cells.json").write_text(json.dumps(listed))
    return rate


def write(collection: Any, contents: Contents, cells: list[str], part: slice) -> None:
    """Add the tuples of a part to a collection."""
    rows = contents.rows.take(part)
    collection.add(
        ids=[row.tuple.id for row in rows],
        embeddings=contents.rows.vectors_of(part),
        documents=[row.tuple.observation for row in rows],
        metadatas=[
            {"goal": row.tuple.goal, "action": row.tuple.action, "cell": cell}
            for row, cell in zip(rows, cells[part], strict=True)
        ],
    )


def open_usearch(place: Path, _: object) -> Recall:
    """Ask an approximate index over everything (usearch, HNSW)."""
    from usearch.index import Index

    contents = inspect(str(place), ENV)
    index = Index.restore(str(place / "index.usearch"), view=True)
    return lambda _goal, _observation, vector: [
        contents.rows[int(i)] for i in index.search(vector, K).keys
    ]


def build_usearch(place: Path) -> float:
    """Make an index of all vectors; return tuples a second."""
    from usearch.index import Index

    contents = inspect(str(place), ENV)
    index = Index(ndim=2 * contents.generation.dimension, metric="ip", dtype="f32")
    seconds = 0.0
    for start in range(0, len(contents.rows), 10_000):
        part = contents.rows.vectors_of(slice(start, start + 10_000))
        keys = np.arange(start, start + len(part))
        seconds += timed(lambda: index.add(keys, part))[0]  # noqa: B023
    index.save(str(place / "index.usearch"))
    return len(contents.rows) / seconds


def run(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Build and measure; yield a record for each memory of each size."""
    contents = inspect(arguments.memory, ENV)
    for size in arguments.sizes:
        place = arguments.out / str(size)
        built = build_ours(contents, size, place, published=not arguments.no_chroma)
        present = reduced(contents, size) if size < len(contents.rows) else contents
        listed = states_of(present, arguments.episodes)
        vectors = present.rows.vectors_of([i for _, _, i in listed])
        halves = np.concatenate(np.split(vectors, 2, axis=1))
        # One vector a text: an agent's goal has the same at each step.
        texts = [text for column in (0, 1) for text in (state[column] for state in listed)]
        first = {text: i for i, text in reversed(list(enumerate(texts)))}
        moved = varied_vectors(halves, stable_seed("states"))[[first[text] for text in texts]]
        np.save(place / "states.npy", np.concatenate(np.split(moved, 2), axis=1))
        named = [(goal, observation) for goal, observation, _ in listed]
        facts = {"embedder": contents.generation.embedder, "states": named}
        (place / "states.json").write_text(json.dumps(facts))
        for name in arguments.only:
            if size > LARGEST.get(name, size) or (name == "server" and arguments.no_chroma):
                continue
            figures: dict[str, Any] = {"size": size, "memory": name}
            if name == "ours":
                figures |= built
            elif name == "chroma-where":
                figures["added_per_s"] = build_chroma(place, states_at(place))
                figures["disk_mb"] = bytes_of(place / name) / 1e6
            elif name == "usearch":
                figures["added_per_s"] = build_usearch(place)
                figures["disk_mb"] = (place / "index.usearch").stat().st_size / 1e6
            command = [sys.executable, __file__, "--measure", name, "--place", str(place)]
            for when in ("cold", "warm"):
                if when == "cold" and not drop_caches():
                    continue
                done = subprocess.run(  # noqa: S603 - this file
                    command, capture_output=True, text=True, check=True
                )
                numbers = json.loads(done.stdout.splitlines()[-1])
                if when == "cold":
                    figures["open_cold_s"] = numbers["open_s"]
                else:
                    figures |= numbers
            yield figures
        if not arguments.keep:
            shutil.rmtree(place)


def states_at(place: Path) -> list[tuple[str, str, np.ndarray]]:
    """Return the states that are asked for, each with its vectors side by side."""
    named = json.loads((place / "states.json").read_text())["states"]
    vectors = np.load(place / "states.npy")
    return [(goal, observation, v) for (goal, observation), v in zip(named, vectors, strict=True)]


def main() -> None:
    """Parse, measure, print a line for each record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", default=".ldm/expert-memory", help="a memory of real episodes")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 20_000])
    parser.add_argument("--episodes", type=int, default=20, help="whose states are asked for")
    parser.add_argument("--out", type=Path, default=Path("/tmp/ldm-memories"))  # noqa: S108
    parser.add_argument("--no-chroma", action="store_true", help="publish nothing to Chroma")
    parser.add_argument("--keep", action="store_true", help="keep the memories that are made")
    names = ["ours", "exact", "server", "chroma-where", "brute-force", "usearch"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.place, states_at(arguments.place))))
        return
    if "usearch" in arguments.only and find_spec("usearch") is None:
        print("usearch is not installed: pip install usearch", file=sys.stderr)
        arguments.only.remove("usearch")
    for figures in run(arguments):
        rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
        print(json.dumps(rounded), flush=True)


if __name__ == "__main__":
    main()

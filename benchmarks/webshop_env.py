"""Measure WebShop's speed: steps per second against the official environment, large catalogues.

    python benchmarks/webshop_env.py steps ../shared/data/webshop
    python benchmarks/webshop_env.py catalogue --products 1000000

`steps` replays the golden sessions of the 1,000 products and compares with the official figures
recorded beside them (on another run of the same kind of machine: golden/timings_webshop.json).
`catalogue` writes that many synthetic products as official files, compiles the catalogue, opens it
again in a new process and searches it there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ldm.types import Task
from ldm.worlds.webshop import WebShop, WebShopOptions
from ldm.worlds.webshop.catalogue import Files, Goal, Goals, open_catalogue
from ldm.worlds.webshop.environment import OFFICIAL_SPLITS, World
from ldm.worlds.webshop.reward import Titles

ROUNDS = 5
SEARCHES = 300
VOCABULARY = 200_000
CHUNK = 2_000


def main() -> None:
    """Run the command of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    steps = commands.add_parser("steps")
    steps.add_argument("data", type=Path, help="the folder webshop of the development data")
    catalogue = commands.add_parser("catalogue")
    catalogue.add_argument("--products", type=int, default=100_000)
    catalogue.add_argument("--folder", type=Path, help="keep the files here; default: temporary")
    reopen = commands.add_parser("open", help="the part of catalogue that runs in a new process")
    reopen.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "steps":
        measure_steps(arguments.data)
    elif arguments.command == "open":
        measure_open(arguments.folder)
    else:
        folder = arguments.folder or Path(tempfile.mkdtemp(prefix="webshop-"))
        try:
            measure_catalogue(folder, arguments.products)
        finally:
            if arguments.folder is None:
                shutil.rmtree(folder)


def measure_steps(data: Path) -> None:
    """Print the steps per second over all golden sessions; search results are not reused."""
    golden = data / "golden"
    sessions = [json.loads(line) for line in (golden / "episodes.jsonl").open()]
    official = json.loads((golden / "timings_webshop.json").read_text())
    parses = [json.loads(line) for line in (golden / "titles_pos.jsonl").open()]
    titles = {one["name"]: tuple(one["nouns"]) for one in parses}
    catalogue = open_catalogue(Files.find(data, human=False))
    step, reset = official["step_mean"], official["reset_mean"]
    print(f"official: {1 / step:.0f} steps/s, {1e3 * reset:.2f} ms a reset")
    for mode in ("text_rich", "text", "bracket"):
        walls, busy, resets = [], [], []
        for _ in range(ROUNDS):
            world = World(catalogue, titles=Titles(titles))
            env = WebShop(WebShopOptions(data=str(data), observation=mode), world=world)
            number, wall, processor, in_reset = replay(env, sessions)
            walls.append(number / wall)
            busy.append(number / processor)
            resets.append(in_reset)
        print(f"{mode}: a reset {1e6 * min(resets):.0f} µs, a fork {1e6 * fork(env):.1f} µs")
        for name, rates in (("wall", walls), ("processor", busy)):
            rate = statistics.median(rates)
            print(
                f"  {rate:.0f} steps/s by {name} time, {rate * step:.0f} times the official "
                f"(rounds {min(rates):.0f} to {max(rates):.0f})"
            )
    print(f"load of the machine {os.getloadavg()[0]:.1f}")


def replay(env: WebShop, sessions: Sequence[dict[str, Any]]) -> tuple[int, float, float, float]:
    """Return (steps, their wall and processor seconds, mean seconds of a reset).

    A session ends with its purchase.
    """
    number, wall, processor, resets = 0, 0.0, 0.0, 0.0
    for session in sessions:
        goal = session["goal_index"]
        split = next(s for s, (a, b) in OFFICIAL_SPLITS.items() if a <= goal < (b or sys.maxsize))
        reset_start = time.perf_counter()
        env.reset(Task(f"{split}/{goal}", "webshop", split, "", "buy"))
        start, cpu = time.perf_counter(), time.process_time()
        for step in session["steps"]:
            number += 1
            if env.step(step["action"]).done:
                break
        wall += time.perf_counter() - start
        processor += time.process_time() - cpu
        resets += start - reset_start
    return number, wall, processor, resets / len(sessions)


def fork(env: WebShop, times: int = 10_000) -> float:
    """Return the seconds that one fork takes."""
    start = time.perf_counter()
    for _ in range(times):
        env.fork()
    return (time.perf_counter() - start) / times


def measure_catalogue(folder: Path, products: int) -> None:
    """Write, compile, open and search a catalogue of synthetic products."""
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "items_shuffle.json").exists():
        write_products(folder, products)
    size = (folder / "items_shuffle.json").stat().st_size
    print(
        f"{products} products, {size / 1e9:.2f} GB of JSON, written in {since(start)}", flush=True
    )
    start = time.perf_counter()
    open_catalogue(Files.find(folder, human=False), cache=folder / "cache")
    size = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    print(
        f"compiled in {since(start)} with at most {peak():.2f} GiB of memory; "
        f"{size / 1e9:.2f} GB on disk",
        flush=True,
    )
    subprocess.run([sys.executable, __file__, "open", folder], check=True)  # noqa: S603


def measure_open(folder: Path) -> None:
    """Print the load time, the memory and the searches per second."""
    start = time.perf_counter()
    catalogue = open_catalogue(Files.find(folder, human=False), cache=folder / "cache")
    print(f"opened in {since(start)}, {len(catalogue)} products, {len(catalogue.goals)} goals")
    queries = [goal.text for goal in spread(catalogue.goals)]
    catalogue.index.search(queries[0])
    walls, busy = [], []
    for query in queries:
        wall, processor = time.perf_counter(), time.process_time()
        catalogue.index.search(query)
        walls.append(time.perf_counter() - wall)
        busy.append(time.process_time() - processor)
    for name, times in (("wall", sorted(walls)), ("processor", sorted(busy))):
        print(
            f"{len(times) / sum(times):.0f} searches/s by {name} time; "
            f"median {1e3 * statistics.median(times):.1f} ms, "
            f"95 % within {1e3 * times[int(0.95 * len(times))]:.1f} ms"
        )
    print(f"at most {peak():.2f} GiB of memory; load of the machine {os.getloadavg()[0]:.1f}")


def spread(goals: Goals) -> list[Goal]:
    """Return SEARCHES goals, evenly spread."""
    return [goals[len(goals) * i // SEARCHES] for i in range(SEARCHES)]


def write_products(folder: Path, number: int) -> None:
    """Write synthetic products of realistic size: about 110 indexed words, by Zipf's law."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnoprstuvw"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(4, 10, VOCABULARY)]
    chance = 1 / (np.arange(VOCABULARY) + 20)
    edges = np.cumsum(chance / chance.sum())
    with (
        (folder / "items_shuffle.json").open("w") as items,
        (folder / "items_ins_v2.json").open("w") as attributes,
    ):
        items.write("[")
        attributes.write("{")
        for first in range(0, number, CHUNK):
            ranks = np.searchsorted(edges, rng.random((CHUNK, 120)))
            for i in range(first, min(first + CHUNK, number)):
                text = [words[min(w, VOCABULARY - 1)] for w in ranks[i - first]]
                asin = f"B{i:09d}"
                comma = "," if i else ""
                items.write(comma + json.dumps(product(asin, i, text)))
                annotations = {
                    "attributes": [" ".join(text[:2]), " ".join(text[2:4])],
                    "instruction": f"Find me {' '.join(text[:4])} {' '.join(text[12:15])}",
                    "instruction_attributes": [" ".join(text[:2])],
                }
                # As in the official data, two products in five have instructions.
                attributes.write(
                    comma + json.dumps(asin) + ":" + json.dumps(annotations if i % 5 < 2 else {})
                )
        items.write("]")
        attributes.write("}")


def product(asin: str, number: int, text: list[str]) -> dict[str, object]:
    """Return a raw product with a text of these words."""
    sizes = [{"value": size, "image": None} for size in ("small", "medium", "large")]
    colors = [{"value": text[i], "image": None} for i in range(20, 20 + number % 4)]
    return {
        "asin": asin,
        "name": " ".join(text[:14]).title(),
        "full_description": " ".join(text[30:90]) + ".",
        "small_description": [" ".join(text[90:110]), " ".join(text[110:])],
        "pricing": f"${number % 90 + 5}.99" + (f"${number % 90 + 9}.99" if number % 7 == 0 else ""),
        "images": ["https://example.org/image.jpg"],
        "product_category": f"Things › {text[15]} › {text[16]}",
        "category": ("beauty", "electronics", "fashion", "garden", "grocery")[number % 5],
        "query": " ".join(text[12:14]),
        "customization_options": {"Size": sizes, "Color": colors} if number % 2 and colors else "",
    }


def since(start: float) -> str:
    """Return the time since `start`, as text."""
    return f"{time.perf_counter() - start:.2f} s"


def peak() -> float:
    """Return this process's peak memory in GiB, including pages of mapped files."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

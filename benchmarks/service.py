"""Let several processes share a growing memory while one of them is killed again and again.

    python benchmarks/service.py --minutes 10

Four processes with two threads each record episodes, recall, give feedback and have batches formed;
every six seconds one of them is killed with `kill -9` and started again. Each thread writes down
what it recorded once the call has returned. At the end every step that was acknowledged must be in
the log exactly once, every finished episode must be recalled, and the memory must be sound. Prints
the numbers of what was lost, torn, doubled or failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks.growing import Hashing, words
from ldm.errors import MemoryLocked
from ldm.memory.growing import GrowingMemory
from ldm.memory.log import Episodes, StepTaken
from ldm.memory.verifying import verify

ENV = "desk"
PROCESSES, THREADS, EVERY = 4, 2, 6.0


def work(place: str, out: Path, seed: int) -> None:
    """Record until the process is killed; write each acknowledged step and end to a file."""
    memory = GrowingMemory.open(place, ENV, create=True, embedder=Hashing(), batch_size=40)

    def loop(number: int) -> None:
        draw = random.Random(f"{seed}-{number}")
        with (out / f"{seed}-{number}.jsonl").open("a") as said:

            def tell(**what: object) -> None:
                said.write(json.dumps(what) + "\n")
                said.flush()

            while True:
                try:
                    episode = memory.begin(words(draw, 6), kind=f"kind{draw.randrange(4)}")
                    for _ in range(draw.randrange(1, 6)):
                        seen, done = words(draw, 8), words(draw, 2)
                        episode.step(seen, done)
                        tell(episode=episode.id, step=[seen, done])
                    episode.finish(float(draw.random() < 0.7))
                    tell(episode=episode.id, finished=True)
                    recalls = memory.recall(episode.goal, seen, k=3)
                    nearest = max(one.similarity for one in recalls)  # learnt actions come first
                    if nearest < 0.999:
                        tell(failed=f"the own step is not recalled: {nearest}")
                    memory.feedback(recalls.id, draw.uniform(-1, 1))
                except Exception as error:
                    tell(failed=f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=loop, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def start(place: str, out: Path, seed: int) -> subprocess.Popen[bytes]:
    """Start one of the processes."""
    command = [sys.executable, "-m", "benchmarks.service", "--work", place]
    return subprocess.Popen([*command, "--out", str(out), "--seed", str(seed)])  # noqa: S603


def judged(place: str, out: Path) -> dict[str, object]:
    """Compare what was acknowledged with what the memory holds."""
    told = [json.loads(line) for path in out.iterdir() for line in path.read_text().splitlines()]
    memory = GrowingMemory.open(place, ENV, embedder=Hashing(), batch_size=40)
    events = [event for _, event in memory._log.read()[0]]
    steps = Counter(
        (one.episode, one.observation, one.action) for one in events if isinstance(one, StepTaken)
    )
    acknowledged = {(one["episode"], *one["step"]) for one in told if "step" in one}
    finished = {one["episode"] for one in told if one.get("finished")}
    held = Episodes().take(events)
    while True:
        try:
            memory.fold()
            break
        except MemoryLocked:  # the batch of a killed process is still being formed
            time.sleep(1)
    tasks = {row.tuple.task_id.removeprefix("recorded/") for row in memory.newest.rows}
    return {
        "steps": len(acknowledged),
        "episodes": len(finished),
        "generations": memory.newest.generation + 1,
        "steps lost": len(acknowledged - steps.keys()),
        "steps doubled": sum(count > 1 for count in steps.values()),
        "episodes lost": len(finished - held.keys()),
        "episodes not formed": len(finished - tasks),
        "exceptions": Counter(one["failed"] for one in told if "failed" in one).most_common(5),
        "problems": verify(place, ENV),
    }


def main() -> None:
    """Run, kill, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.out, arguments.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        place, out = f"{folder}/memory", Path(folder, "out")
        out.mkdir()
        running = [start(place, out, seed) for seed in range(PROCESSES)]
        until, kills = time.monotonic() + 60 * arguments.minutes, 0
        while time.monotonic() < until:
            time.sleep(EVERY)
            victim = random.Random(kills).randrange(PROCESSES)
            os.kill(running[victim].pid, signal.SIGKILL)
            running[victim].wait()
            kills += 1
            running[victim] = start(place, out, PROCESSES + kills)
        for one in running:
            one.kill()
            one.wait()
        time.sleep(2)  # a batch that is being formed
        print(json.dumps({"kills": kills, **judged(place, out)}, indent=1))


if __name__ == "__main__":
    main()

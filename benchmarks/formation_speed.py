"""Measure the seconds that forming a memory takes with several model requests at a time.

    python benchmarks/formation_speed.py

A server of the tests, in this process, answers every call after --delay seconds and --token-delay
more for each token of the reply (four bytes): these delays stand for the model's, and are all that
differs from a server without any. Its replies are scripted and valid. --episodes of the shipped
trajectories of --env, an even share of each kind, are formed with 1 request at a time and with
--concurrency. Prints the seconds, their ratio, and whether the memories are the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ldm
from ldm.llm.service import Connection
from ldm.memory.packs import export
from ldm.run.selection import even
from ldm.types import Trajectory
from tests.integration.test_prompted_cli import reply
from tests.llm.server import Behaviour, FakeServer


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="alfworld")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--delay", type=float, default=0.5)
    parser.add_argument("--token-delay", type=float, default=0.005)
    arguments = parser.parse_args()
    shipped = [t for t in ldm.read_trajectories() if t.task.env == arguments.env]
    kinds = [(t.id, t.task.kind) for t in shipped]
    episodes = [shipped[i] for i in even(kinds, arguments.episodes)]
    print(
        f"{len(episodes)} episodes of {arguments.env}; the model's delay, by the scripted server: "
        f"{arguments.delay:g} s a call and {arguments.token_delay:g} s a token of its reply"
    )
    delays = arguments.delay, arguments.token_delay
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        formed(episodes, place / "first", 64, (0.0, 0.0))  # embeds all texts
        many = formed(episodes, place / "many", arguments.concurrency, delays)
        one = formed(episodes, place / "one", 1, delays)
        print(f"{arguments.concurrency} at a time against one: {one / many:.2f} times as fast")
        contents = {(place / f"{name}.jsonl").read_bytes() for name in ("many", "one")}
        print(f"the same bytes: {'yes' if len(contents) == 1 else 'NO'}")


def formed(
    episodes: Sequence[Trajectory], memory: Path, concurrency: int, delays: tuple[float, float]
) -> float:
    """Form a memory, print how long it took, and return the seconds, without reading files."""

    def answer(body: dict[str, Any]) -> str:
        text = reply(body)
        time.sleep(delays[0] + delays[1] * len(text) / 4)
        return text

    with FakeServer(Behaviour(answer=answer)) as server:
        (built,) = ldm.build_memory(
            episodes,
            str(memory),
            ldm.Build(models={"reasoner_llm": "scripted", "concurrency": concurrency}),
            runtime=ldm.Runtime(
                server=Connection(server.url), embeddings=memory.parent / "embeddings"
            ),
        )
    export(str(memory), built.env, memory.with_suffix(".jsonl"))
    seconds = sum(built.seconds.values())
    if memory.name == "first":
        return seconds
    print(
        f"{concurrency} at a time: {seconds:.1f} s ({len(server.bodies)} calls, {server.peak} at a "
        f"time at most; {built.seconds['form']:.1f} s of it waiting for the model)",
        flush=True,
    )
    return seconds


if __name__ == "__main__":
    main()

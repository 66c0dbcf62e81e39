"""Load a server of a memory: requests a second, the slowest of a hundred, errors, its memory.

    python benchmarks/serving.py [--requests 10000] [--at-once 64] [--episodes 200]

Starts `ldm serve --http` on a memory of so many episodes in a folder of its own, with the default
embedder, and sends it recalls, steps and feedback of two tenants, of ten requests seven recalls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

TOKENS = {"a-token-of-tenant-a": {"tenant": "a"}, "a-token-of-tenant-b": {"tenant": "b"}}
GOALS = [
    f"{verb} the {thing}"
    for verb in ("refund", "replace", "send")
    for thing in ("lamp", "chair", "table", "kettle", "book", "phone", "plant", "clock")
]


class Load:
    """One run of requests against a server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self.leaks = 0
        limits = httpx2.Limits(max_connections=None)
        self._client = httpx2.AsyncClient(base_url=address, timeout=60, limits=limits)

    async def post(self, name: str, tenant: str, **arguments: Any) -> dict[str, Any]:
        started = time.perf_counter()
        token = f"a-token-of-tenant-{tenant}"
        headers = {"Authorization": f"Bearer {token}"}
        answer = await self._client.post(f"/v1/{name}", json=arguments, headers=headers)
        self.seconds.append(time.perf_counter() - started)
        if answer.status_code != 200:
            self.errors.append(f"{name}: {answer.status_code} {answer.text[:100]}")
        body: dict[str, Any] = answer.json()
        return body

    async def record(self, tenant: str, rng: random.Random) -> None:
        """Record an episode of three steps."""
        begun = await self.post("begin_episode", tenant, goal=rng.choice(GOALS), kind="desk")
        for number in range(3):
            seen = {"status": rng.choice(("open", "lost", "paid")), "step": number}
            action = f"{tenant} does {seen['status']}"
            await self.post(
                "record_step", tenant, episode=begun["episode"], observation=seen, action=action
            )
        await self.post("finish_episode", tenant, episode=begun["episode"], score=rng.random())

    async def recall(self, tenant: str, rng: random.Random) -> None:
        """Recall, and give feedback on every third."""
        seen = {"status": rng.choice(("open", "lost", "paid")), "step": rng.randrange(3)}
        recalled = await self.post(
            "recall_experience", tenant, goal=rng.choice(GOALS), observation=seen
        )
        other = "b does" if tenant == "a" else "a does"
        self.leaks += other in json.dumps(recalled)
        if recalled.get("recall_id") and rng.random() < 1 / 3:
            await self.post("give_feedback", tenant, recall_id=recalled["recall_id"], reward=1)

    async def run(self, requests: int, at_once: int, *, recording: bool) -> float:
        """Send requests; return the seconds that they took."""
        started, before = time.perf_counter(), len(self.seconds)

        async def worker(number: int) -> None:
            rng = random.Random(number)
            while len(self.seconds) - before < requests:
                tenant = rng.choice("ab")
                if recording or rng.random() < 0.06:
                    await self.record(tenant, rng)
                else:
                    await self.recall(tenant, rng)

        await asyncio.gather(*(worker(number) for number in range(at_once)))
        return time.perf_counter() - started


def resident(process: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(address: str, process: int, options: argparse.Namespace) -> None:
    """Print a line for each fifth of the load."""
    load = Load(address)
    await load.run(5 * options.episodes, 8, recording=True)
    print(f"{options.episodes} episodes recorded: server at {resident(process):.0f} MB")
    for part in range(5):
        load.seconds.clear()
        took = await load.run(options.requests // 5, options.at_once, recording=False)
        load.seconds.sort()
        count = len(load.seconds)
        print(
            f"part {part + 1}: {count} requests, {count / took:.0f} a second, median "
            f"{load.seconds[count // 2] * 1e3:.0f} ms, p99 "
            f"{load.seconds[int(count * 0.99)] * 1e3:.0f} ms, errors {len(load.errors)}, of "
            f"another scope {load.leaks}, server at {resident(process):.0f} MB"
        )
    print(*load.errors[:5], sep="\n")


def main() -> None:
    """Run the load."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder, "tokens.json")
        tokens.write_text(json.dumps(TOKENS))
        command = [sys.executable, "-m", "ldm", "serve", "--http", f"127.0.0.1:{port}"]
        command += ["--memory", f"{folder}/memory", "--env", "desk"]
        variables = {**os.environ, "LDM_SERVE_TOKENS": str(tokens)}
        server = subprocess.Popen(command, env=variables)  # noqa: S603 - our own command
        try:
            address = f"http://127.0.0.1:{port}"
            while True:
                try:
                    httpx2.get(address)
                    break
                except httpx2.TransportError:
                    time.sleep(0.1)
            asyncio.run(measure(address, server.pid, options))
        finally:
            server.terminate()
            server.wait(600)  # a batch may be being formed


if __name__ == "__main__":
    main()

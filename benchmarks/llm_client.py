"""Measure the overhead of our model client: on a server's latency, and in processor time per call.

    python benchmarks/llm_client.py

Starts the tests' fake server in a separate process. First, many calls at `--latency` with
`--concurrency` requests in flight, compared with the ideal time calls × latency / concurrency; then
sequential calls without latency, alternating with the same requests by the bare `openai` package.
Recording is always on. Prints seconds, ratios, and milliseconds of processor time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.llm import Message
from ldm.llm.calls import Recording
from ldm.llm.capabilities import Capabilities, CapabilityStore
from ldm.llm.client import Client
from ldm.llm.meter import ConcurrencyLimiter, CostLimits, Meter, load_prices
from ldm.llm.service import Connection, Service


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=64)
    arguments = parser.parse_args()
    with serving(arguments.latency) as url, tempfile.TemporaryDirectory() as folder:
        client = new_client(url, arguments.concurrency, Path(folder))
        ask(client, "hello")
        cpu, started = time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(arguments.concurrency) as pool:
            list(pool.map(lambda number: ask(client, f"question {number}"), range(arguments.calls)))
        took, busy = time.perf_counter() - started, time.process_time() - cpu
        ideal = arguments.calls * arguments.latency / arguments.concurrency
        print(
            f"{arguments.calls} calls of {arguments.latency:g} s, "
            f"{arguments.concurrency} at a time: {took:.2f} s, "
            f"ideal {ideal:.2f} s, ratio {took / ideal:.3f}; "
            f"processor time {1000 * busy / arguments.calls:.2f} ms a call"
        )
        client.close()
    with serving(0.0) as url, tempfile.TemporaryDirectory() as folder:
        client = new_client(url, 1, Path(folder))
        ours, bare = alternately(lambda text: ask(client, text), bare_call(url), 50, 10)
        print(
            f"processor time a call, one at a time: client {ours:.2f} ms, bare openai package "
            f"{bare:.2f} ms, the client's own {ours - bare:.2f} ms"
        )
        client.close()


def ask(client: Client, text: str) -> None:
    """Send one request, which must be new."""
    client.model("m").complete([Message("user", text)], max_tokens=50)


def bare_call(url: str) -> Callable[[str], None]:
    """Return a function that sends the same request with the bare package."""
    import openai

    package = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def call(text: str) -> None:
        package.chat.completions.create(
            model="m", messages=[{"role": "user", "content": text}], temperature=0.0, max_tokens=50
        )

    return call


def alternately(
    first: Callable[[str], None], second: Callable[[str], None], size: int, rounds: int
) -> tuple[float, float]:
    """Return the milliseconds of processor time per call of each, medians of alternating rounds."""
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for which, call in enumerate((first, second)):
            cpu = time.process_time()
            for again in range(size):
                call(f"{number} {again}")
            if number:  # the first round warms up
                spent[which].append(1000 * (time.process_time() - cpu) / size)
    return sorted(spent[0])[rounds // 2], sorted(spent[1])[rounds // 2]


def new_client(url: str, concurrency: int, folder: Path) -> Client:
    """Return a client that records below `folder`, with the server's capabilities preset."""
    store = CapabilityStore()
    store.put("m", Capabilities())
    return Client(
        Service(Connection(url), connections=concurrency),
        Recording(folder / "llm.jsonl"),
        Meter(CostLimits(), load_prices()),
        ConcurrencyLimiter(concurrency),
        store,
    )


@contextmanager
def serving(latency: float) -> Iterator[str]:
    """Run a fake server in a separate process and yield its base URL."""
    command = [sys.executable, "-m", "tests.llm.server", "--latency", str(latency)]
    root = Path(__file__).resolve().parent.parent
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)  # noqa: S603
    try:
        assert server.stdout is not None  # noqa: S101
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()

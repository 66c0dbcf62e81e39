"""Let agents buy in a shop at the same time while a library that replies depend on loads slowly.

    python scripts/import_race.py ../shared/data/webshop [--runs 20] [--latency 1.5]

The first purchase among the official products loads spaCy, which imports `httpx`; the `openai`
package looks for that module at every reply. Each run is a process of its own, in which importing
`httpx` stops halfway for some seconds, with a model that answers on the loopback address: each
episode searches, opens the first product and buys it. Prints how many episodes ended in an error.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

#: Imported by `httpx` before it has its class of replies.
SUBMODULE = "httpx._api"
#: How often a product page leads to a purchase.
BUYING = 0.25


class SlowFinder(MetaPathFinder):
    """Keeps whoever imports a module waiting, and leaves finding it to others."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == SUBMODULE:
            time.sleep(self._seconds)
        return None


class Buyer(BaseHTTPRequestHandler):
    """A model that buys the first product, at times that differ from episode to episode."""

    protocol_version = "HTTP/1.1"
    #: Seconds that a reply takes at most.
    latency = 1.5

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        time.sleep(random.Random(prompt).uniform(0.1, self.latency))
        reply = {"role": "assistant", "content": action(prompt)}
        text = json.dumps({"choices": [{"message": reply, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def action(prompt: str) -> str:
    """Return what to do next on the page shown last: search, open the first product, buy it.

    Most prompts have the features read once more first, so that some are still at it when others
    buy.
    """
    page = prompt.rpartition("<so-far>")[2].rpartition("Observation:")[2]
    if "[Buy Now]" in page:
        buys = random.Random(f"buy {prompt}").random() < BUYING
        return "Act: click[Buy Now]" if buys else "Act: click[Features]"
    if "[< Prev]" in page:
        return "Act: click[< Prev]"
    products = re.findall(r"\[(B0\w{8})\]", page)
    return f"Act: click[{products[0]}]" if products else "Act: search[shirt]"


def play(data: Path, episodes: int, seconds: float) -> tuple[int, int, list[str]]:
    """Play in this process; return (episodes that ended in an error, that bought, errors)."""
    sys.meta_path.insert(0, SlowFinder(seconds))
    import ldm
    from ldm.llm.service import Connection

    server = ThreadingHTTPServer(("127.0.0.1", 0), Buyer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with tempfile.TemporaryDirectory() as folder:
        runtime = ldm.Runtime(Path(folder), server=Connection(url), data=lambda env: str(data))
        models = {"llm": "scripted", "concurrency": episodes}
        spec = ldm.Evaluate("webshop", agent="react", split="test", limit=episodes, models=models)
        results = ldm.evaluate(spec, runtime=runtime).results
    errors = [one.error.strip().splitlines()[-1] for one in results if one.error]
    return len(errors), sum(one.score > 0 for one in results), errors


def main() -> None:
    """Play all runs, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--latency", type=float, default=Buyer.latency)
    parser.add_argument("--here", action="store_true", help="one run, in this process")
    given = parser.parse_args()
    Buyer.latency = given.latency
    if given.here:
        print(json.dumps(play(given.data, given.episodes, given.seconds)))
        return
    lost = bought = 0
    for run in range(given.runs):
        process = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--here"],
            check=True,
            capture_output=True,
            text=True,
        )
        errors, purchases, reasons = json.loads(process.stdout.splitlines()[-1])
        lost, bought = lost + errors, bought + purchases
        print(f"run {run + 1}: {errors} errors, {purchases} purchases {reasons[:1] or ''}")
    print(f"{lost} of {given.runs * given.episodes} episodes ended in an error; {bought} bought.")


if __name__ == "__main__":
    main()

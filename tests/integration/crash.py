"""Kill a command at a random moment, resume it, and compare with an undisturbed run."""

import base64
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ldm import records
from ldm.llm.calls import LOST, Call
from ldm.llm.capabilities import Capabilities
from ldm.llm.service import request_body
from ldm.memory import environments, generations, inspect
from ldm.memory.packs import export
from ldm.report import write_report
from ldm.run.evaluate import compare
from ldm.run.results import as_json
from ldm.run.statistics import pass_at
from ldm.types import stable_hash
from tests.integration import forks
from tests.integration.forks import Fork
from tests.llm.server import FakeServer

LDM = (sys.executable, "-m", "ldm")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
#: How many times as often as wanted it is tried to kill a command before it is done.
ATTEMPTS = 5
#: Seconds between two looks of a reader: it should not take the processor from what it looks at.
GLANCE = 0.05


@dataclass(frozen=True, slots=True)
class Command:
    """A resumable command to be killed.

    start, resume: the command line, given the directory it works in.
    begun: whether there is something to resume in that directory.
    digest: the outcome in that directory, without what may differ (times, ids of runs).
    watch: called again and again in that directory while the command works; raises where a reader
    would see something that is not whole.
    server: the model server that it asks; then the kill comes with one of its requests, which are
    answered no further, so that no command is done before it is killed.
    """

    start: Callable[[Path], list[str]]
    resume: Callable[[Path], list[str]]
    begun: Callable[[Path], bool]
    digest: Callable[[Path], str]
    watch: Callable[[Path], None] | None = None
    server: FakeServer | None = None


@dataclass(frozen=True, slots=True)
class Kill:
    """One attempt. moment: seconds from the first trace on disk, or requests, to the kill.

    group: whether the whole process group was killed or the first process alone.
    finished: the command was done before it could be killed.
    """

    moment: float
    group: bool
    finished: bool
    same: bool


def kill_and_resume(command: Command, directory: Path, *, kills: int, seed: int = 0) -> list[Kill]:
    """Kill a command `kills` times, each at a random moment of its work, and resume it to its end.

    Every second attempt kills the first process alone and resumes at once, while its workers may
    still be alive. A kill that came after the end does not count: further ones follow, ATTEMPTS
    times as many at most.
    """
    generator = random.Random(seed)
    whole = directory / "whole"
    whole.mkdir()
    duration = _watched(command, whole, None, group=True)[0]
    expected, server = command.digest(whole), command.server
    requests = 0 if server is None else len(server.bodies)
    attempts: list[Kill] = []
    for number in range(kills * ATTEMPTS):
        if sum(not attempt.finished for attempt in attempts) == kills:
            break
        place = directory / f"kill-{number}"
        place.mkdir()
        moment: float = generator.uniform(0, duration)
        group = number % 2 == 0
        wait = moment
        if server is not None:
            server.hold_after = len(server.bodies) + generator.randrange(1, requests)
            moment = server.hold_after - len(server.bodies)
            wait = generator.uniform(0, 2 * server.behaviour.latency)
        worked, finished = _watched(command, place, wait, group=group)
        if finished and server is None:
            duration = min(duration, worked)  # the machine is faster now
        again = command.resume(place) if command.begun(place) else command.start(place)
        forks.run(again, _environment())
        attempts.append(Kill(moment, group, finished, command.digest(place) == expected))
        shutil.rmtree(place)
    return attempts


def check_resumed(command: Command, directory: Path, *, kills: int, seed: int) -> list[Kill]:
    """Assert that a killed command comes to the end of an undisturbed one; return the attempts."""
    attempts = kill_and_resume(command, directory, kills=kills, seed=seed)
    assert all(attempt.same for attempt in attempts), attempts
    assert not all(attempt.finished for attempt in attempts)
    return attempts


def evaluation(*options: str, count: int = 1, program: Sequence[str] = LDM) -> Command:
    """`ldm eval` with these options, as something to be killed.

    count: how many runs it makes, of several agents or repeats. The outcome is what they recorded,
    their summaries, and what a report of them says.
    """

    def runs(place: Path) -> list[Path]:
        """The runs of one command, the first of which names the others; [] until all are there."""
        companions = {
            path.parent: json.loads(path.read_text())["arguments"]["companion"]
            for path in place.glob("[!.]*/run.json")  # not one that is still being written
        }
        for first in companions.keys() - {place / name for name in companions.values()}:
            chain = [first]
            while name := companions[chain[-1]]:
                chain.append(place / name)
            if len(chain) == count:
                return chain
        return []

    def digest(place: Path) -> str:
        parts: list[object] = []
        for run in runs(place):
            lines = (run / "episodes.jsonl").read_text().splitlines()
            recorded = [*map(json.loads, lines), json.loads((run / "summary.json").read_text())]
            left = sorted(path.name for path in run.iterdir())
            parts.append((_timeless(recorded), (run / "trajectories.jsonl").read_text(), left))
        if count > 1:
            parts += [_reported(runs(place)), _page(runs(place))]
        return stable_hash(*parts)

    return Command(
        start=lambda place: [*program, "eval", *options, "--runs", str(place)],
        resume=lambda place: [
            *(*program, "eval", "--resume", str(runs(place)[0]), "--trust"),
            *_workers(options),
        ],
        begun=lambda place: bool(runs(place)),
        digest=digest,
    )


def _timeless(value: Any) -> Any:
    """Return JSON values without times."""
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "seconds"}
    return value


def _reported(runs: Sequence[Path]) -> object:
    """What is said of runs: their tables as JSON, differences included, without times and ids."""
    compared = compare(runs, trust=True)
    reports = [
        {k: v for k, v in as_json(report).items() if k not in ("run", "repeats")}
        for report in compared.reports
    ]
    chances = [[asdict(one) for one in pass_at(report.repeats)] for report in compared.reports]
    return _timeless([reports, chances, list(compared.lines)])


def _page(runs: Sequence[Path]) -> object:
    """What `ldm report` puts into its page on runs, without times and ids."""
    with tempfile.TemporaryDirectory() as folder:
        text = write_report(runs, Path(folder) / "report.html", trust=True).read_text()
    packed = re.findall(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>', text)
    assert packed
    parts = {name: gzip.decompress(base64.b64decode(data)).decode() for name, data in packed}
    for number, run in enumerate(runs):
        started = json.loads((run / "run.json").read_text())["started"]
        for name, part in parts.items():
            parts[name] = part.replace(run.name, f"run {number}").replace(started, "then")
    return _timeless([[name, json.loads(part)] for name, part in parts.items()])


def asking(server: FakeServer, *options: str, program: Sequence[str] = LDM) -> Command:
    """`ldm eval` of an agent that calls the model at `server`, as something to be killed.

    The outcome holds every recorded call and every one that was billed: it is spoilt where one was
    made again that was recorded when the command was killed, or where one was billed twice.
    """
    os.environ["OPENAI_BASE_URL"] = server.url
    agent = ("--env", "tests.toy:ToyEnv", "--agent", "tests.integration.agents:Asking")
    base = evaluation(*agent, "--llm", "fake", *options, program=program)
    recorded: set[str] = set()
    since = [0]

    def calls(place: Path) -> list[Call]:
        files = list(place.glob("*/llm.jsonl"))
        read = records.read(files[0], Call, torn_tail=True) if files else []
        return [call for call in read if call.error != LOST]

    def start(place: Path) -> list[str]:
        recorded.clear()
        server.forget()
        since[0] = len(server.bodies)
        return base.start(place)

    def resume(place: Path) -> list[str]:
        recorded.update(
            _identity(request_body(c.request, Capabilities(), None)) for c in calls(place)
        )
        since[0] = len(server.bodies)
        return base.resume(place)

    def digest(place: Path) -> str:
        again = [body for body in server.bodies[since[0] :] if _identity(body) in recorded]
        recorded_calls = sorted(
            records.dumps(replace(call, seconds=0.0, attempts=1)) for call in calls(place)
        )
        billed = sorted(_identity(body) for body in server.billed)
        return stable_hash(base.digest(place), recorded_calls, billed, len(again))

    return replace(base, start=start, resume=resume, digest=digest, server=server)


def _identity(body: dict[str, Any]) -> str:
    """What tells calls apart on the wire."""
    return stable_hash(body["messages"], body.get("seed", 0))


def building(*options: str, program: Sequence[str] = LDM) -> Command:
    """`ldm build-memory` with these options, as something to be killed."""

    def build(place: Path) -> list[str]:
        return [*program, "build-memory", *options, "--memory", str(place / "memory")]

    def digest(place: Path) -> str:
        file = place / "memory.jsonl"
        (env,) = environments(str(place / "memory"))
        export(str(place / "memory"), env, file)
        left = sorted(path.name for path in (place / "memory").iterdir() if path.is_file())
        return stable_hash(file.read_text(), left)

    return Command(
        start=build, resume=build, begun=lambda place: (place / "memory").exists(), digest=digest
    )


def importing(source: Path, program: Sequence[str] = LDM) -> Command:
    """`ldm import` of trajectories, as something to be killed: its file is whole, or not there."""

    def start(place: Path) -> list[str]:
        return [*program, "import", str(source), "--out", str(place / "out.jsonl")]

    def digest(place: Path) -> str:
        left = sorted(path.name for path in place.iterdir())
        return stable_hash((place / "out.jsonl").read_text(), left)

    def watch(place: Path) -> None:
        if (place / "out.jsonl").exists():
            assert digest(place) == stable_hash(source.read_text(), ["out.jsonl"])

    return Command(
        start=start,
        resume=start,
        begun=lambda place: any(place.iterdir()),
        digest=digest,
        watch=watch,
    )


def refinement(base: Path, *options: str, program: Sequence[str] = LDM) -> Command:
    """`ldm refine` of a copy of the memory `base` with these options, as something to be killed.

    A reader looks at the memory all the while, and must see a whole generation every time. Each
    round is a run; the latest is resumed.
    """

    def runs(place: Path) -> list[Path]:
        manifests = (place / "runs").glob("[!.]*/run.json")  # not one that is being written
        return [path.parent for path in sorted(manifests, key=lambda path: path.stat().st_mtime_ns)]

    def start(place: Path) -> list[str]:
        shutil.rmtree(place / "memory", ignore_errors=True)
        shutil.copytree(base, place / "memory")
        at = ("--memory", str(place / "memory"), "--runs", str(place / "runs"))
        return [*program, "refine", *options, *at]

    def digest(place: Path) -> str:
        rounds = []
        for run in runs(place):
            trees = [json.loads(line) for line in (run / "trees.jsonl").read_text().splitlines()]
            for tree in trees:
                del tree["seconds"]
            rounds.append((trees, sorted(path.name for path in run.iterdir())))
        file = place / "memory.jsonl"
        (env,) = environments(str(place / "memory"))
        export(str(place / "memory"), env, file)
        return stable_hash(rounds, file.read_text())

    def watch(place: Path) -> None:
        env = environments(str(place / "memory"))[0]
        contents = inspect(str(place / "memory"), env)  # raises where it is not whole
        if len(generations(str(place / "memory"), env)) < contents.generation.number + 1:
            raise AssertionError("a generation has gone")

    return Command(
        start=start,
        resume=lambda place: [
            *(*program, "refine", "--resume", str(runs(place)[-1]), "--trust"),
            *_workers(options),
        ],
        begun=lambda place: bool(runs(place)),
        digest=digest,
        watch=watch,
    )


def across_rounds(base: Path, *options: str, program: Sequence[str] = LDM) -> Command:
    """A refinement of two rounds, killed when the goals of the first have been explored.

    That is while the first is judged, while it is committed, or in the second.
    """
    command = refinement(base, *options, "--rounds", "2", program=program)
    return replace(command, begun=lambda place: any(place.glob("runs/*/trees.jsonl")))


def _workers(options: tuple[str, ...]) -> list[str]:
    at = options.index("--workers")
    return list(options[at : at + 2])


def _watched(
    command: Command, place: Path, moment: float | None, *, group: bool
) -> tuple[float, bool]:
    """Run a command and kill it `moment` seconds after it has begun, or after its last request.

    Returns how long it worked, in seconds, and whether it came to its end.
    """
    with forks.started(command.start(place), _environment()) as process:
        return _killed(process, command, place, moment, group=group)


def _killed(
    process: subprocess.Popen[bytes] | Fork,
    command: Command,
    place: Path,
    moment: float | None,
    *,
    group: bool,
) -> tuple[float, bool]:
    limit = time.monotonic() + PATIENCE
    while not command.begun(place) and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    server = command.server
    while server is not None and server.hold_after is not None and process.poll() is None:
        if len(server.bodies) >= server.hold_after or time.monotonic() > limit:
            break
        time.sleep(0.002)
    began = time.monotonic()
    try:
        _wait(process, command, place, PATIENCE if moment is None else moment)
    except subprocess.TimeoutExpired:
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        if server is not None:
            server.hold_after = None
        return time.monotonic() - began, False
    if process.returncode:
        raise RuntimeError(f"{command.start(place)} failed with {process.returncode}")
    return time.monotonic() - began, True


def _wait(
    process: subprocess.Popen[bytes] | Fork, command: Command, place: Path, limit: float
) -> None:
    """Wait for the process, looking at what it makes; raises TimeoutExpired at the limit."""
    end = time.monotonic() + limit
    while command.watch is not None and process.poll() is None and time.monotonic() < end:
        command.watch(place)
        time.sleep(GLANCE)
    process.wait(max(0.0, end - time.monotonic()))


def _environment() -> dict[str, Any]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

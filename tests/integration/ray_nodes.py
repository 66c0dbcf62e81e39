"""Ray clusters on loopback for tests, each in a process of its own, and what is played on them.

python -m tests.integration.ray_nodes cluster    two nodes; a line on standard input kills one
python -m tests.integration.ray_nodes local      squares by a Ray that the map starts itself
"""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.types import Task, TimeStep
from tests.integration.crash import ROOT
from tests.toy import ToyEnv, ToyOptions

#: Ray waits 30 s for a node, which are too few where other tests keep all processors busy.
STARTS = 3
#: A socket that listens, in /proc/net/tcp.
LISTENS = "0A"
#: Loopback there: of IPv4, and of IPv6 on its own and as IPv4.
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


@dataclass(frozen=True, slots=True)
class NotingOptions(ToyOptions):
    """log: the file in which every episode that begins is noted, with its process."""

    log: str = ""


class NotingEnv(ToyEnv):
    """The shed, which notes who is in it (`--env tests.integration.ray_nodes:NotingEnv`)."""

    Options = NotingOptions

    def reset(self, task: Task) -> TimeStep:
        assert isinstance(self.options, NotingOptions)
        with Path(self.options.log).open("a", encoding="utf-8") as file:
            file.write(f"{task.id} {os.getpid()}\n")
        return super().reset(task)


@dataclass(frozen=True)
class Nodes:
    """A cluster of two nodes of a processor each. environment: what its users need, too."""

    process: subprocess.Popen[str]
    address: str
    environment: dict[str, str]

    def kill_one(self) -> None:
        """Kill a node that is not the head, and all that works there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("kill\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "killed\n"


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a process that uses Ray: nothing of the user's, nothing of Ray's."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**ours, "HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def two_nodes(home: Path) -> Iterator[Nodes]:
    """Start a cluster of two nodes on loopback."""
    variables = {
        **environment(home),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback alone
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    command = [sys.executable, "-m", __name__, "cluster"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    for _ in range(STARTS):
        process = subprocess.Popen(
            command, **pipes, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=variables
        )
        assert process.stdout is not None
        try:
            if address := process.stdout.readline().strip():
                yield Nodes(process, address, variables)
                return
        finally:
            process.communicate(timeout=60)
    raise AssertionError("The cluster does not start.")


def _cluster() -> None:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=1)
    _say(cluster.address)
    for _ in sys.stdin:
        cluster.remove_node(node, allow_graceful=False)
        _say("killed")
    cluster.shutdown()  # type: ignore[no-untyped-call]


def _local() -> None:
    from ldm.cluster import RayCluster
    from tests.run.test_engine import ITEMS, Square, Squarer, SquareWorker

    squares: list[Square] = []
    RayCluster().map(partial(SquareWorker, Squarer()), ITEMS, workers=2, on_result=squares.append)
    values = {square.index: square.value for square in squares}
    makers = {square.made_by for square in squares}
    listening = _listening([os.getpid(), *_descendants(os.getpid())])
    errors = []
    for broken in (Squarer(raise_at=7), Squarer(die_at=6)):
        try:
            RayCluster().map(
                partial(SquareWorker, broken), ITEMS, workers=2, on_result=lambda _: None
            )
        except LdmError as error:
            errors.append(f"{type(error).__name__}: {error}")
    outcome = {
        "errors": errors,
        "values": [values[index] for index in sorted(values)],
        "elsewhere": os.getpid() not in makers,
        "makers": len(makers),
        "listening": listening,
    }
    _say(json.dumps(outcome))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _descendants(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in map(int, task.read_text().split()):
                yield child
                yield from _descendants(child)


def _listening(processes: Sequence[int]) -> list[str]:
    """Return the addresses, as the kernel writes them, at which these processes listen."""
    sockets = set[str]()
    for process in processes:
        for path in glob(f"/proc/{process}/fd/*"):
            with suppress(OSError):  # it is closed meanwhile
                sockets |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(path)))
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENS and rest[5] in sockets:
                addresses.append(local.partition(":")[0])
    return addresses


if __name__ == "__main__":
    {"cluster": _cluster, "local": _local}[sys.argv[1]]()

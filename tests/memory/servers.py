"""Chroma servers for tests."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import chromadb
import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Servers:
    """Chroma servers on loopback, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._program = Path(sys.executable).with_name("chroma")
        self._folder = folder
        self._running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def address(self, name: str) -> str:
        """Return the address of a server, always the same for a name."""
        if name not in self._running:
            self._running[name] = self._started(self._folder / name)
        return f"http://127.0.0.1:{self._running[name][1]}"

    def empty(self, name: str) -> str:
        """Return the address of a server from which everything has been removed."""
        address = self.address(name)
        client = chromadb.HttpClient("127.0.0.1", self._running[name][1])
        for collection in client.list_collections():
            client.delete_collection(collection.name)
        return address

    def stop(self) -> None:
        """End them all."""
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            process.wait(30)

    def _started(self, place: Path) -> tuple[subprocess.Popen[bytes], int]:
        if not self._program.exists():
            pytest.skip("the chroma command is not installed")
        place.mkdir(parents=True)
        port = free_port()
        process = subprocess.Popen(
            [self._program, "run", "--host", "127.0.0.1", "--port", str(port), "--path", place],
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        limit = time.monotonic() + 60
        while time.monotonic() < limit and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return process, port

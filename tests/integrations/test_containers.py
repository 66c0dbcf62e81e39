"""The Dockerfiles name what is there, and what they start answers their own health check."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.memory.servers import free_port

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
PINS = (CHECKOUT / "tests" / "integrations" / "trainers.txt").read_text()
#: Folder → the package that it needs beside ldm, and where it starts.
CONTAINERS = {"serve": ("mcp_types", "."), "openenv/server": ("openenv", "examples/openenv")}


@pytest.mark.process
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_can_be_built_and_is_healthy(name: str, tmp_path: Path) -> None:
    port, (needed, start) = str(free_port()), CONTAINERS[name]
    text = (CHECKOUT / "examples" / name / "Dockerfile").read_text().replace("\\\n", " ")
    said = dict(line.split(" ", 1) for line in text.splitlines() if line[:1].isalpha())
    assert set(re.findall(r"\[(\w+)\]", said["RUN"])) <= PROJECT["optional-dependencies"].keys()
    assert all(pin in PINS for pin in re.findall(r"\w+==[\d.]+", said["RUN"]))
    assert all((CHECKOUT / path).exists() for path in re.findall(r"/src/([\w/.]+)", said["RUN"]))
    pytest.importorskip(needed)
    (tmp_path / "tokens.json").write_text('{"a-token-of-a-tenant": {}}')
    for there, here in (("8321", port), ("8000", port), ("/memory", f"{tmp_path}/memory"),
                        ("/tokens.json", f"{tmp_path}/tokens.json")):  # fmt: skip
        said = {key: value.replace(there, here) for key, value in said.items()}
    command = [word for key in ("ENTRYPOINT", "CMD") for word in json.loads(said.get(key, "[]"))]
    variables = os.environ | dict(one.split("=", 1) for one in shlex.split(said["ENV"]))
    run = [sys.executable, "-m", *command]
    with subprocess.Popen(run, cwd=CHECKOUT / start, env=variables) as process:
        check = [sys.executable, *shlex.split(said["HEALTHCHECK"])[2:]]
        until = time.monotonic() + 60
        while subprocess.run(check, check=False, stderr=subprocess.DEVNULL).returncode:
            assert process.poll() is None
            assert time.monotonic() < until
        process.terminate()

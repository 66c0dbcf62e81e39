"""Libraries that are imported at first use do not break threads that call a model."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ldm.envs.webshop.titles import parser_version
from ldm.run.builders import Shared

SCRIPT = Path(__file__).parents[2] / "scripts" / "import_race.py"


@pytest.mark.slow
@pytest.mark.process
def test_episodes_survive_a_slow_import_beside_them(shared_data: Path) -> None:
    if parser_version() == "none":
        pytest.skip("spaCy's model is not installed: it comes with ldm-memory[webshop]")
    options = ("--latency", "0.5", "--here")
    command = [sys.executable, str(SCRIPT), str(shared_data / "webshop"), *options]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    errors, purchases, reasons = json.loads(run.stdout.splitlines()[-1])
    assert errors == 0, reasons
    assert purchases


@dataclass(frozen=True)
class Noting:
    """A builder that notes what is asked of it."""

    calls: list[str] = field(default_factory=list, hash=False)

    def __call__(self, models: Any = None, knowledge: Any = None) -> str:
        self.calls.append("build")
        return "built"

    def load(self) -> None:
        self.calls.append("load")

    def prepare(self, built: str) -> None:
        self.calls.append(f"prepare {built}")


def test_the_first_worker_is_prepared_before_there_is_another() -> None:
    builder = Noting()
    shared: Shared[str] = Shared(builder, models=None)  # type: ignore[arg-type]
    shared()
    shared()
    assert builder.calls == ["load", "build", "prepare built", "build"]

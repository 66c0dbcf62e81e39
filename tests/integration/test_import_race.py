"""Libraries that are imported at first use do not break threads that call a model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ldm.worlds.webshop.reward import parser_version

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

"""What `scripts/structure.py` counts has ceilings: they may fall, and never rise.

Whoever needs more lines, options or words first removes some.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import CHECKOUT

#: In code lines, numbers (of options: of all, and of those that one page of help lists), lines of
#: transcripts and words of documents.
CEILINGS = {
    "core": 22_911,
    "all": 32_995,
    "commands": 28,
    "options": 75,
    "help": 25,
    "tests": 29_889,
    "goldens": 2_397,
    "docs": 49_887,
}
#: From `ldm eval` to the first step of an episode.
PATH_CEILINGS = {"frames": 9, "modules": 70}


def measured(*options: str) -> dict[str, Any]:
    command = [sys.executable, "scripts/structure.py", "--json", *options]
    done = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return measured()


@pytest.mark.parametrize("name", CEILINGS)
def test_there_is_no_more_than_the_ceiling(name: str, figures: dict[str, Any]) -> None:
    assert figures[name] <= CEILINGS[name], figures["packages"]


@pytest.mark.slow
@pytest.mark.process
def test_the_way_to_the_first_step_is_short() -> None:
    figures = measured("--path")
    over = {name: figures[name] for name, most in PATH_CEILINGS.items() if figures[name] > most}
    assert not over, " → ".join(figures["stack"])

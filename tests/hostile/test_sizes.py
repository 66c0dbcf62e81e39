"""Files of megabytes, and lines with very many faults, take little memory and output."""

import json

import pytest

from ldm import records
from ldm.records import MOST_LISTED, MOST_TOLD
from ldm.types import Trajectory
from tests.processes import printed
from tests.test_types import TRAJECTORY

SOUND = records.dumps(TRAJECTORY)


def test_a_sound_trajectory_of_ten_thousand_steps_is_read() -> None:
    step = {"action": "go", "observation": "[button] x, y", "recalls": [["a" * 16, 0.5]] * 5}
    line = json.dumps({**json.loads(SOUND), "steps": [step] * 10_000})
    assert isinstance(records.parse(line, Trajectory, "a", 1), Trajectory)


def test_a_list_names_its_first_bad_item_with_all_of_its_fields() -> None:
    line = {**json.loads(SOUND), "steps": [{"action": "a", "observation": "b"}, {}, {}]}
    problems = records.check_line(json.dumps(line), Trajectory)
    assert [one.field for one in problems] == ["steps.1.action", "steps.1.observation"]


@pytest.mark.parametrize(
    ("unknown", "listed"), [(3, 3), (MOST_LISTED + 5, MOST_LISTED + 1), (MOST_TOLD + 1, 1)]
)
def test_so_many_problems_of_a_line_are_listed_and_the_rest_is_counted(
    unknown: int, listed: int
) -> None:
    line = SOUND[:-1] + "".join(f',"a{i}":0' for i in range(unknown)) + "}"
    problems = records.check_line(line, Trajectory)
    assert len(problems) == listed
    if listed == MOST_LISTED + 1:
        assert problems[-1].message == "5 more fields do not fit"
    if listed == 1:
        assert problems[0].message == f"{unknown:,} fields are unknown or do not fit"


def test_a_line_of_64_megabytes_is_refused_unparsed() -> None:
    (problem,) = records.check_line(b"[" + b" " * 2**26 + b"]", Trajectory)
    assert problem.message == "longer than 64 MB"


LONG = """
import re
from pathlib import Path
from dataclasses import replace
from ldm.memory.formation import FormationOptions, form
from ldm.memory.lessons import nothing
from ldm.reason.offline import OfflineReasoner
from ldm.types import Step
from tests.embedder import BagOfWords
from tests.test_types import TRAJECTORY
steps = [Step(f"go {i % 50}", f"A drawer {i} with pen {i % 7}.") for i in range(20_000)]
long = replace(TRAJECTORY, steps=tuple(steps), score=1.0, success=True)
embedder = BagOfWords()
base = nothing("e", embedder)
contents = form([long], FormationOptions(), embedder, OfflineReasoner(embedder), base)
assert len(contents.rows) == 20_000
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def test_a_trajectory_of_twenty_thousand_steps_is_formed_in_less_than_500_megabytes() -> None:
    assert int(printed(LONG)) < 500_000

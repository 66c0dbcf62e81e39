"""Tables of results at every width of a terminal."""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from ldm.cli import output

COLUMNS = ("agent", "success", "95 % interval", "clean", "cool", "heat", "steps", "s/task")
ROWS = [
    ("ldm generation 12", "93.6 %", "89.3–97.1", "100.0 %", "1234567.8 %", "9.1 %", 21.5, None),
    ("react with a long name of its own", "3.6 %", "0.3–17.1", "0.0 %", "0.8 %", "–", 1.5, 12345),
]


Printed = Callable[..., str]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """`printed(80)` is the table of ROWS at this width."""

    def at(width: int, title: str = "Side by side", *of: Any, **options: Any) -> str:
        monkeypatch.setattr(output, "FILE_WIDTH", width)
        output.print_table(title, *(of or (COLUMNS, ROWS)), **options)
        return capsys.readouterr().out

    return at


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_no_number_is_split_and_no_line_is_too_long(width: int, printed: Printed) -> None:
    text = printed(width)
    for row in ROWS:
        for cell in row[1:]:
            assert cell is None or str(cell) in text
    for column in COLUMNS:
        assert column in text
    assert max(map(len, text.splitlines())) <= width


def test_columns_that_do_not_fit_follow_beneath_with_the_first_again(printed: Printed) -> None:
    assert printed(160).count("ldm generation 12") == 1
    narrow = printed(60)
    assert "".join(narrow.split()).count("ldmgeneration12") == narrow.count(" agent ") == 2
    assert narrow.count("Side by side") == 1


def test_a_column_may_be_kept_whole(printed: Printed) -> None:
    name = "alfworld-valid_seen-ldm-20261121-101530-ab12"
    runs = ("run", "agent", "state"), [(name, "ldm", "finished")] * 2
    assert name not in printed(60, "Runs", *runs)
    assert name in printed(60, "Runs", *runs, whole=("run",))


@pytest.mark.slow
def test_progress_without_a_terminal_is_a_line_now_and_then_also_while_one_step_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(output, "SILENCE", 0.01)
    monkeypatch.setattr(output, "say", lines.put)
    with output.stages() as report:
        report("embed", 256, 1000)
        printed = [lines.get(timeout=30) for _ in range(3)]
    assert any(line.startswith("embed: 256 of 1000 (") for line in printed)

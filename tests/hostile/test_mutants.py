"""No mutated input ends in a traceback, hangs, or loses other records; at length: mutants.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.mutants import attack


@pytest.mark.parametrize(
    "number", [pytest.param(350, id="short"), pytest.param(3500, id="long", marks=pytest.mark.slow)]
)
def test_every_mutant_is_read_or_refused_with_a_reason(tmp_path: Path, number: int) -> None:
    counts, wrong = attack(number, seed=number, folder=tmp_path)
    assert not wrong, "\n".join(wrong)
    ends = {name.rpartition(": ")[2] for name in counts}
    assert ends == {"read", "problem", "refused"}
    assert counts.total() == number

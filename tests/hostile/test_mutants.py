"""No mutated input ends in a traceback, hangs, or loses other records; at length: mutants.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from ldm.text import printable, printable_json
from tests.hostile.mutants import ACTING, Attack, daily_seed
from tests.hostile.strategies import texts, values


@pytest.mark.parametrize(
    "number", [pytest.param(300, id="short"), pytest.param(4000, id="long", marks=pytest.mark.slow)]
)
def test_every_mutant_is_read_or_refused_with_a_reason(tmp_path: Path, number: int) -> None:
    attack = Attack(tmp_path, daily_seed())
    attack.run(number)
    again = f"Again with LDM_SEED={daily_seed()}."
    assert not attack.wrong, "\n\n".join([again, *attack.wrong])
    ends = {name.rpartition(": ")[2] for name in attack.counts}
    assert ends == {"read", "problem", "refused", "given to whole commands"}


@given(texts())
def test_no_text_acts_once_it_is_printable(text: str) -> None:
    assert not ACTING.search(printable(text))
    printable(text).encode()


@given(values())
def test_no_value_acts_once_it_is_printed(value: object) -> None:
    assert not ACTING.search(printable_json(value))

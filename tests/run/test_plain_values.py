"""What callers may write in place of the exact types, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ldm


def test_mappings_paths_and_lists_become_what_specs_hold() -> None:
    values: Any = {"agent_options": {"k": 7}, "kinds": ["heat"], "memory": Path("m")}
    spec = ldm.EvaluationSpec("alfworld", **values)
    assert spec == ldm.EvaluationSpec(
        "alfworld", agent_options=ldm.settings(k=7), kinds=("heat",), memory="m"
    )
    assert hash(spec)


def test_the_folder_of_runs_may_be_text() -> None:
    folder: Any = "elsewhere"
    assert ldm.Runtime(runs=folder).runs == Path("elsewhere")


@pytest.mark.parametrize(
    ("of", "name"),
    [(ldm.EvaluationSpec, "kinds"), (ldm.Grid, "agents"), (ldm.Goals, "ids")],
)
def test_one_text_in_place_of_several_is_refused(of: Any, name: str) -> None:
    required = {"env": "alfworld"} if of is ldm.EvaluationSpec else {}
    with pytest.raises(ldm.LdmError, match=f"{name} of {of.__name__} takes several") as refused:
        of(**required, **{name: "heat"})
    assert refused.value.remedy == f"Write {name}=('heat',)."


def test_an_unknown_value_is_refused(tmp_path: Path) -> None:
    options: Any = {"env": "alfworld", "failures": "kept"}
    with pytest.raises(ldm.LdmError, match="failures is drop, keep or contrast"):
        ldm.build_memory(memory=str(tmp_path), options=ldm.BuildOptions(**options))

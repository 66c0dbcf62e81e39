"""Specs and model options go to run.json and come back as they were."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ldm import records
from ldm.errors import LdmError, RecordError
from ldm.llm.models import ModelOptions
from ldm.llm.service import Connection
from ldm.options import override, settings
from ldm.policy import PolicyOptions
from ldm.records import plain
from ldm.run.engine import Member, recorded_spec, start
from ldm.run.runtime import Runtime
from ldm.run.specs import EvaluationSpec, PlanSpec, RefinementSpec

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
#: A field's type, as written in the dataclass → its values.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "Annotated[str, Field(exclude_if=not_)]": TEXT,
    "str | None": st.none() | TEXT,
    "int": st.integers(),
    "int | None": st.none() | st.integers(),
    "float | None": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "tuple[str, ...]": st.lists(TEXT, max_size=4).map(tuple),
    "GoalsBy": st.sampled_from(["even", "failed", "long"]),
    "Settings": st.dictionaries(TEXT, TEXT, max_size=4).map(lambda d: tuple(sorted(d.items()))),
}
#: A field's name → its values, where not all of its type will do.
NAMED: dict[str, st.SearchStrategy[Any]] = {"rounds": st.integers(5, 9), "round": st.integers(1, 5)}
#: The first text that is drawn takes seconds on a busy machine.
PATIENT = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPECS = (EvaluationSpec, RefinementSpec, PlanSpec)


def values_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return any value of a dataclass; a field of a type that is new here has to be listed."""
    values = {
        field.name: NAMED[field.name] if field.name in NAMED else VALUES[str(field.type)]
        for field in fields(kind)
    }
    return st.builds(kind, **values)


@PATIENT
@given(st.one_of(*map(values_of, SPECS)))
def test_every_spec_comes_back_from_run_json(spec: Any) -> None:
    assert records.loads(json.dumps(plain(spec)), type(spec)) == spec
    assert hash(spec) is not None  # builders are sent to other processes, and compared


@PATIENT
@given(values_of(ModelOptions))
def test_model_options_come_back_from_run_json(options: ModelOptions) -> None:
    assert (
        ModelOptions.recorded(json.loads(json.dumps(plain(options))), Path("run.json")) == options
    )


@pytest.mark.parametrize(
    "spec",
    [
        EvaluationSpec(
            "toy",
            "test",
            "random",
            kinds=("wash",),
            tasks=("a", "b"),
            limit=3,
            env_options=settings(shelves=3, dialect="ä, b"),
            generation=0,
        ),
        RefinementSpec("toy", "train", ("a",), options=settings(width=2), seed=7),
        PlanSpec("toy", "train", kind="wash", pool=("a",), options=settings(batch=1)),
    ],
)
def test_a_run_holds_the_spec_that_it_was_started_with(spec: Any, tmp_path: Path) -> None:
    runtime = Runtime(runs=tmp_path, server=Connection("http://127.0.0.1:9/v1"))
    (recorded,) = start([Member(spec, ())], lambda _: ("subject",), ModelOptions("m"), runtime)
    run, reread = recorded_spec(recorded.run.manifest.id, type(spec), tmp_path)
    assert reread == spec
    assert run.manifest == recorded.run.manifest
    other: Any = SPECS[SPECS.index(type(spec)) - 1]
    with pytest.raises(LdmError, match=f"is not {other.noun}") as refused:
        recorded_spec(str(run.directory), other, tmp_path)
    assert refused.value.remedy == f"Resume with `{run.resume_command}`."


def test_a_field_that_no_spec_has_is_named(tmp_path: Path) -> None:
    spec = EvaluationSpec("toy", "test", "random")
    runtime = Runtime(runs=tmp_path)
    (recorded,) = start([Member(spec, ())], lambda _: ("subject",), ModelOptions(), runtime)
    path = recorded.run.directory / "run.json"
    path.write_text(path.read_text().replace('"limit": null', '"limits": null'))
    with pytest.raises(RecordError, match="limits"):
        recorded_spec(str(recorded.run.directory), EvaluationSpec, tmp_path)


class TestSettings:
    def test_are_text_sorted_by_name_without_none(self) -> None:
        assert settings(k=7, history="none", batches=None) == (("history", "none"), ("k", "7"))
        assert settings() == ()

    def test_are_read_as_the_option_s_type(self) -> None:
        options = override(PolicyOptions, dict(settings(k=7)), "policy")
        assert options == PolicyOptions(k=7)

    @pytest.mark.parametrize(
        ("values", "message", "remedy"),
        [
            ({"kk": "1"}, "The policy has no option 'kk'.", "Did you mean 'k'?"),
            ({"k": "many"}, "k=many does not fit the policy", "Change --set k=…."),
            (
                {"k": "-1"},
                "Invalid options for the policy: k and batches",
                "Correct these options.",
            ),
        ],
    )
    def test_that_do_not_fit_are_refused(
        self, values: dict[str, str], message: str, remedy: str
    ) -> None:
        with pytest.raises(LdmError) as refused:
            override(PolicyOptions, values, "policy")
        assert message in refused.value.message
        assert remedy in refused.value.remedy

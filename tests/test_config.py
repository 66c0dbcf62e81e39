"""The options tree: what Python, TOML, run.json and the command line write is one value."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ldm.config import (
    Build,
    Evaluate,
    OptimisePlan,
    Refine,
    Section,
    dump,
    hints,
    load,
    merge,
    written,
)
from ldm.errors import LdmError
from ldm.types import Within

SPECS = (Evaluate, Refine, OptimisePlan, Build)
#: The first text that is drawn takes seconds on a busy machine.
PATIENT = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAME = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
SCALAR = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUE = SCALAR | st.lists(SCALAR, max_size=3).map(tuple)
SECTION = st.builds(
    lambda name, options: Section(name, tuple(sorted(options.items()))),
    NAME,
    st.dictionaries(NAME.filter(lambda one: one != "name"), VALUE, max_size=4),
)
#: A field's type → its values, where pydantic's own strategy will not do.
BOUNDED = {
    "rounds": st.integers(5, 9),
    "round": st.integers(1, 5),
    "per_kind": st.integers(0, 9),
    "batch_size": st.integers(0, 9),
    "min_reward": st.floats(0, 1),
}


def values_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return any value of a spec."""

    def strategy(name: str, hint: Any) -> st.SearchStrategy[Any]:
        if name in BOUNDED:
            return BOUNDED[name]
        values = SECTION if hint is Section else st.from_type(hint)
        return values.filter(lambda one: str(one).lower() != "none" or one is None)  # that is None

    return st.builds(kind, **{n: strategy(n, one.hint) for n, one in hints(kind).items()})


@PATIENT
@given(st.one_of(*map(values_of, SPECS)))
def test_every_spec_comes_back_from_json(spec: Any) -> None:
    assert load(type(spec), json.loads(json.dumps(dump(spec)))) == spec
    assert hash(spec) is not None  # builders are compared, and sent to other processes


@dataclass(frozen=True)
class Options:
    k: Annotated[int, Within(1)] = 5
    rate: float = 0.5
    decision: Literal["pooled", "per-batch"] = "pooled"
    rank: bool = False
    data: str | None = None
    kinds: tuple[str, ...] = ()
    limit: Annotated[int, Within(1)] | None = 3


class TestValues:
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("k", "7", 7),
            ("rate", "0.25", 0.25),
            ("decision", "per-batch", "per-batch"),
            ("rank", "true", True),
            ("rank", "no", False),
            ("data", "/a b", "/a b"),
            ("data", "none", None),
            ("kinds", "heat, cool", ("heat", "cool")),
            ("limit", "None", None),
        ],
    )
    def test_are_read_by_the_type_of_their_field(self, name: str, text: str, value: object) -> None:
        assert getattr(Section.read({name: text}).typed(Options, "agent x"), name) == value

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [("k", "many", "k of agent x takes an integer of 1 or more, not 'many'."),
         ("k", "0", "of 1 or more, not '0'"), ("limit", "0", "integer of 1 or more, or none, not"),
         ("decision", "both", "takes one of pooled, per-batch"),
         ("rank", "perhaps", "rank of agent x takes true or false"),
         ("dicision", "pooled", "Did you mean 'decision'?")],
    )  # fmt: skip
    def test_that_do_not_fit_are_named(self, name: str, text: str, message: str) -> None:
        with pytest.raises(LdmError) as caught:
            Section.read({name: text}).typed(Options, "agent x")
        assert message in str(caught.value)

    @pytest.mark.parametrize("one", fields(Options), ids=lambda one: one.name)
    def test_are_written_as_they_are_read(self, one: Any) -> None:
        value = getattr(Options(kinds=("a", "b")), one.name)
        assert (
            getattr(Section.read({one.name: written(value)}).typed(Options, "x"), one.name) == value
        )


class TestSpecs:
    def test_read_names_mappings_paths_and_lists(self) -> None:
        values: Any = {"agent": {"name": "ldm", "k": 7}, "kinds": ["heat"], "memory": Path("m")}
        spec = Evaluate("alfworld", **values)
        section = Section("ldm", (("k", 7),))
        assert spec == Evaluate(Section("alfworld"), agent=section, kinds=("heat",), memory="m")

    def test_refuse_one_text_in_place_of_several(self) -> None:
        text: Any = "heat"
        with pytest.raises(LdmError, match="kinds takes several values") as refused:
            Evaluate(kinds=text)
        assert refused.value.remedy == "Write kinds=('heat',)."

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"limt": 3}, "run.json: spec has no option 'limt'. Did you mean 'limit'?"),
            ({"limit": "three"}, "run.json: spec.limit takes an integer or none, not 'three'."),
            ({"agent": 3}, "run.json: spec.agent takes a name or a table of options, not 3."),
            ({"agent": {"k": {}}}, "run.json: spec.agent takes a name or a table of options"),
        ],
    )
    def test_name_the_place_of_a_value_that_does_not_fit(
        self, values: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(LdmError) as refused:
            load(Evaluate, values, where="run.json: spec")
        assert message in str(refused.value)

    def test_layers_win_option_by_option(self) -> None:
        preset = {"env": {"name": "webshop", "goals": "human"}, "agent": {"k": 5}, "limit": 9}
        asked = {"env": {"page_size": 3}, "agent": "ldm", "limit": 2}
        spec = load(Evaluate, merge(Evaluate, preset, asked))
        assert spec.env == Section("webshop", (("goals", "human"), ("page_size", 3)))
        assert (spec.agent, spec.limit) == (Section("ldm", (("k", 5),)), 2)

    def test_of_a_refinement_have_rounds(self) -> None:
        with pytest.raises(LdmError):
            Refine(rounds=0)

    def test_sections_take_the_type_of_each_option(self) -> None:
        section = Section("x", (("k", "7"), ("kinds", "a,b")))
        settled = section.settled(section.typed(Options, "agent x"))
        assert settled.options == {"k": 7, "kinds": ("a", "b")}
        assert replace(settled) == settled.settled(settled.typed(Options, "agent x"))

"""`import ldm` offers the public API: at once, typed and documented."""

import importlib
import inspect
from typing import get_type_hints

import pytest

import ldm
from tests.processes import printed

HEAVY = ("chromadb", "torch", "sentence_transformers", "openai", "polars", "sklearn", "typer")


#: What people do, and what is not loaded for it: it takes longer than most commands.
UNLOADED = {
    "import ldm; assert ldm.__version__ and 'evaluate' in dir(ldm)": ("ldm.run", *HEAVY),
    "import ldm; ldm.Evaluate('alfworld'), ldm.Runtime(), ldm.Section('ldm')": HEAVY,
    "import ldm.llm.client, ldm.llm.meter, ldm.llm.service": ("genai_prices",),
    "from ldm.embed import load_embedder as load; load().embed(['a'])": (
        *("sentence_transformers", "transformers"),
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("use", UNLOADED)
def test_nothing_heavy_is_loaded_before_it_is_used(use: str) -> None:
    program = f"{use}\nimport sys; print([one for one in {UNLOADED[use]} if one in sys.modules])"
    assert printed(program) == "[]\n"


@pytest.mark.parametrize("name", ldm.__all__)
def test_every_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(ldm, name)
    assert name in dir(ldm)
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own, f"{name} has no docstring"
    # Generated docstrings of dataclasses are their signature.
    assert not own.startswith(f"{name}("), f"{name} has no docstring of its own"
    if inspect.isfunction(value):
        assert "return" in value.__annotations__
        assert set(value.__annotations__) > set(inspect.signature(value).parameters)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ldm' has no attribute 'evalaute'"):
        ldm.evalaute  # type: ignore[attr-defined]  # noqa: B018


def test_every_name_is_found_in_the_module_that_the_stub_says() -> None:
    assert len(ldm._MODULES) > 45
    for name, module in ldm._MODULES.items():
        assert getattr(importlib.import_module(module), name) is getattr(ldm, name)


def test_specs_and_options_have_types_that_resolve() -> None:
    for name in ("Evaluate", "Refine", "OptimisePlan", "Build", "Grid"):
        assert get_type_hints(getattr(ldm, name))

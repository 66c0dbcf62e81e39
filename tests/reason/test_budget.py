"""Prompts are as long as the model's context allows, or as they are told to be."""

import pytest

from ldm.policy import PolicyOptions
from ldm.reason.excerpts import characters
from ldm.reason.prompting import Budget, default_tokens
from tests.reason.scripted import Scripted


class Sized(Scripted):
    """A model that knows its context."""

    def __init__(self, tokens: int | None) -> None:
        super().__init__(lambda _: "")
        self._tokens = tokens

    def context(self) -> int | None:
        return self._tokens


@pytest.mark.parametrize(
    ("context", "tokens"),
    [(None, 6000), (8192, 6000), (4096, 3000), (2048, 1500), (512, 1000), (131072, 12000)],
)
def test_a_prompt_takes_three_quarters_of_a_context(context: int | None, tokens: int) -> None:
    assert default_tokens(context) == tokens
    assert Budget(Sized(context)).room() == characters(tokens)


def test_a_budget_that_is_given_stands() -> None:
    assert Budget(Sized(131072), 2000).room(0.5) == characters(1000)


def test_a_model_that_knows_nothing_of_its_context_gets_the_usual_budget() -> None:
    assert Budget(Scripted(lambda _: "")).room() == characters(6000)


def test_a_budget_that_no_prompt_fits_is_refused() -> None:
    assert PolicyOptions().prompt_tokens == 0
    with pytest.raises(ValueError, match="1000 or more"):
        PolicyOptions(prompt_tokens=999)

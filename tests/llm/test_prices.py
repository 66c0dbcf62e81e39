"""What models cost: the shipped table, a user's, and names that are in neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.llm import Message
from ldm.llm.meter import Price, load_prices, price_of
from ldm.types import Usage
from tests.llm.conftest import Connect, Serve


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("openrouter/openai/gpt-4.1-2025-04-14", "gpt-4.1"),
        ("gpt-3.5-turbo-0125", "gpt-3.5-turbo"),
    ],
)
def test_a_dated_model_and_a_gateways_name_cost_what_the_model_does(
    name: str, same_as: str
) -> None:
    prices = load_prices()
    assert price_of(name, prices) == prices[same_as]


def test_a_version_with_a_price_of_its_own_has_that() -> None:
    prices = load_prices()
    assert price_of("gpt-4o-2024-05-13", prices) == Price(5.0, 5.0, 15.0)


@pytest.mark.parametrize(
    "name",
    [
        "qwen2.5:1.5b",
        "gpt-4o-mini:free",
        "openai/gpt-4o-mini:free",
        "gpt-4o-mini-audio",
        "azure/gpt-4o-mini",
        "notopenai/gpt-4o-mini",
        "",
    ],
)
def test_no_price_is_guessed_for_another_model(name: str) -> None:
    assert price_of(name, load_prices()) is None


def test_a_users_file_adds_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    mine = {"openai/gpt-4o-mini": [1, 1, 1], "qwen2.5:1.5b": [0, 0, 0]}
    file.write_text(json.dumps({"models": mine}))
    prices = load_prices(file)
    assert price_of("openai/gpt-4o-mini", prices) == Price(1, 1, 1)
    assert price_of("qwen2.5:1.5b", prices) == Price(0, 0, 0)
    assert price_of("gpt-4o", prices) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "has no field models"),
        ('{"models": {"m": [1, 2]}}', "models.m is not three prices"),
        ('{"models": {"m": [1, 2, -3]}}', "models.m is not three prices"),
        ('{"models": {"m": [1, 2, "3"]}}', "models.m is not three prices"),
        ("{", "prices.json:1"),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(text)
    with pytest.raises(LdmError, match=said):
        load_prices(tmp_path / "prices.json")


def test_cached_tokens_have_a_price_of_their_own() -> None:
    assert Price(2.0, 0.5, 8.0).of(Usage(1, 1_000_000, 400_000, 100_000)) == pytest.approx(
        0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 8.0
    )


def test_where_the_price_is_unknown_no_dollars_are_counted(serve: Serve, connect: Connect) -> None:
    client = connect(serve())
    client.model("qwen2.5:1.5b").complete((Message("user", "x"),))
    assert {account.usd for account in client.accounts()} == {None}

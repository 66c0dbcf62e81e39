"""What models cost: the package's data, a user's file, and names that are in neither."""

import json
from decimal import Decimal
from pathlib import Path

import genai_prices
import pytest
from genai_prices import calc_price
from genai_prices.types import Tier, TieredPrices

from ldm.errors import LdmError
from ldm.llm import Message
from ldm.llm.calls import Call, Request
from ldm.llm.meter import CostLimits, Meter, Price, load_prices, price_of
from ldm.types import Usage


@pytest.mark.parametrize(
    ("name", "same_as"),
    [("gpt-4o-mini-2024-07-18", "gpt-4o-mini"), ("openai/gpt-4o-mini", "gpt-4o-mini"),
     ("openrouter/openai/gpt-4.1-2025-04-14", "gpt-4.1"), ("gpt-3.5-turbo-0125", "gpt-3.5-turbo")],
)  # fmt: skip
def test_a_dated_and_a_gateways_name_cost_what_the_model_does(name: str, same_as: str) -> None:
    prices = load_prices()
    assert price_of(name, prices) == prices[same_as]


@pytest.mark.parametrize("tokens", [10_000, 300_000])
@pytest.mark.parametrize("name", ["gpt-3.5-turbo-0301", "gpt-4o-2024-05-13", "o4-mini", "gpt-5.5"])
def test_calls_cost_what_the_package_says(name: str, tokens: int) -> None:
    price = price_of(name, load_prices())
    assert price is not None
    usage = Usage(1, tokens, 4_000, 500)
    counts = {"input_tokens": tokens, "cache_read_tokens": 4_000, "output_tokens": 500}
    official = calc_price(genai_prices.Usage(**counts), name, provider_id="openai")
    assert price.of(usage) == pytest.approx(float(official.total_price))


@pytest.mark.parametrize(
    "name",
    [
        *("qwen2.5:1.5b", "gpt-4o-mini:free", "openai/gpt-4o-mini:free", "gpt-4o-mini-audio"),
        *("azure/gpt-4o-mini", "notopenai/gpt-4o-mini", "openai/gpt-oss-20b", "gpt-oss-120b"),
        *("gpt-4o-mini-search-preview", "gpt-4o-2024-finetuned", "claude-sonnet-4-5", "ada", ""),
    ],
)
def test_no_price_is_guessed_for_another_model(name: str) -> None:
    assert price_of(name, load_prices()) is None


def test_a_users_file_adds_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    models = ("openai/gpt-4o-mini", "qwen2.5:1.5b", "gpt-4o")
    file.write_text(json.dumps({"models": {name: [1, 1, 1] for name in models}}))
    prices = load_prices(file)
    for name in (*models, "gpt-4o-2024-08-06"):
        assert price_of(name, prices) == Price(*[Decimal(1)] * 3)
    assert price_of("gpt-4o-2024-05-13", prices) == Price(Decimal(5), Decimal(5), Decimal(15))
    assert price_of("gpt-4.1", prices) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", 'has no field "models"'),
        *(
            (f'{{"models": {{"m": {price}}}}}', "price of m must be a list of three numbers")
            for price in ("[1, 2]", "[1, 2, -3]", '[1, 2, "3"]')
        ),
        ("{", "prices.json:1"),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(text)
    with pytest.raises(LdmError, match=message):
        load_prices(tmp_path / "prices.json")


def tiered(base: str, above: str) -> TieredPrices:
    return TieredPrices(Decimal(base), [Tier(200_000, Decimal(above))])


TIERED = Price(tiered("2", "4"), tiered("0.5", "1"), tiered("8", "12"))


@pytest.mark.parametrize(
    ("usage", "usd"),
    [(Usage(1, 200_000, 0, 1_000), 0.4 + 0.008), (Usage(1, 200_001, 0, 1_000), 0.800004 + 0.012),
     (Usage(1, 300_000, 100_000, 0), 0.8 + 0.1), (Usage(100, 400_000, 0, 0), 0.8)],
)  # fmt: skip
def test_long_prompts_cost_more(usage: Usage, usd: float) -> None:
    assert TIERED.of(usage) == pytest.approx(usd)


def test_a_bound_takes_the_dearest_price_that_a_prompt_can_reach() -> None:
    assert TIERED.most(Usage(1, 100_000, 0, 1_000)) == pytest.approx(0.208)
    assert TIERED.most(Usage(100, 400_000, 0, 0)) == pytest.approx(1.6)


def test_the_meter_prices_calls_one_by_one() -> None:
    meter = Meter(CostLimits(), {"m": TIERED})
    request = Request("m", (Message("user", "x"),))
    for tokens in (150_000, 250_000):
        usage = Usage(1, tokens, 0, 0)
        meter.take([Call(str(tokens), "llm", request, "", "stop", usage)])
    (account,) = meter.accounts()
    assert account.usd == pytest.approx(0.3 + 1.0)

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.worlds.webshop.catalogue import NO_CAP, Catalogue, Files, Goal, Goals, shuffled
from tests.worlds.webshop.conftest import edge_files, human_goals, lines
from tests.worlds.webshop.shop import annotation, draw, in_order, products_of, raw, write_shop


def as_official(goal: Goal) -> dict[str, Any]:
    """A goal in the official form."""
    pairs = bool(goal.options) and isinstance(goal.options[0], tuple)
    return {
        "asin": goal.product.asin,
        "category": goal.product.category,
        "query": goal.product.query,
        "name": goal.product.title,
        "product_category": goal.product.product_category,
        "instruction_text": goal.text,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_cap,
        "goal_options": dict(goal.options) if pairs else list(goal.options),  # type: ignore[arg-type]
    }


def without_chance(goal: dict[str, Any]) -> dict[str, Any]:
    """A golden goal without what plays no part here; no options are no options in any form."""
    fields = {name: value for name, value in goal.items() if name not in ("index", "weight")}
    return fields | {"goal_options": fields["goal_options"] or []}


def goals_of(folder: Path, **changes: Any) -> Goals:
    product = raw(0, **changes)
    write_shop(folder, [product], {product["asin"]: annotation(0)})
    products, _ = products_of(Files.find(folder, human=False))
    return in_order(products, draw(products))


def test_prices_and_goals_are_those_of_official_code(catalogue: Catalogue, golden: Path) -> None:
    prices = json.loads((golden / "prices.json").read_text())
    amounts = {catalogue[i].asin: float(amount) for i, amount in enumerate(catalogue.amounts)}
    assert amounts == prices
    goals = lines(golden / "goals.jsonl")
    assert len(catalogue.goals) == len(goals) == 6910
    assert [as_official(goal) for goal in catalogue.goals] == [without_chance(g) for g in goals]


def test_human_goals_are_those_of_the_official_code(official: Path, golden: Path) -> None:
    _, goals = human_goals(official, golden)
    theirs = lines(golden / "goals_human_13.jsonl")
    assert [as_official(goal) for goal in goals] == [without_chance(goal) for goal in theirs]


@pytest.mark.parametrize("human", [False, True])
def test_the_edge_goals_are_those_of_the_official_code(golden: Path, human: bool) -> None:
    edge = golden / "edge"
    products, _ = products_of(edge_files(golden, human=human))
    prices = draw(products)
    loaded = json.loads((edge / f"loaded_human_goals_{human}.json").read_text())["prices"]
    assert dict(zip((p.asin for p in products), prices.amounts.tolist(), strict=True)) == loaded
    goals = Goals(products, prices, shuffled(int(prices.counts.sum())))
    theirs = lines(edge / f"goals_human_{human}.jsonl")
    assert [as_official(goal) for goal in goals] == [without_chance(goal) for goal in theirs]


def test_a_product_gives_a_goal_for_each_combination_of_options(tmp_path: Path) -> None:
    goals = goals_of(tmp_path)
    assert len(goals) == 9
    assert [dict(goal.options) for goal in list(goals)[:4]] == [  # type: ignore[arg-type]
        {"color": "black", "size": "small"},
        {"color": "black", "size": "large"},
        {"color": "black", "size": "x-large"},
        {"color": "light blue", "size": "small"},
    ]
    cap = f"{goals[0].price_cap:.2f}"
    assert goals[3].text == (
        "Find me a good lamp with color: light blue, and size: small, "
        f"and price lower than {cap} dollars"
    )


def test_an_empty_group_of_options_leaves_no_goal(tmp_path: Path) -> None:
    goals = goals_of(tmp_path, customization_options={"Size": []})
    assert len(goals) == 0
    assert list(goals) == []


def test_a_price_near_the_top_has_no_cap(tmp_path: Path) -> None:
    (goal,) = goals_of(tmp_path, pricing="$985.00", customization_options="")
    assert goal.price_cap == NO_CAP
    assert goal.text == "Find me a good lamp"


def test_caps_are_multiples_of_ten_above_the_price(tmp_path: Path) -> None:
    products = [raw(i, customization_options="") for i in range(50)]
    attributes = {p["asin"]: annotation(i) for i, p in enumerate(products)}
    folder = write_shop(tmp_path, products, attributes)
    parsed, _ = products_of(Files.find(folder, human=False))
    prices = draw(parsed)
    over = prices.caps - prices.amounts
    assert np.all(over > 10)
    assert np.all(over <= 40)
    assert np.all(prices.caps % 10 == 0)


def test_another_seed_gives_other_caps_and_another_order(catalogue: Catalogue) -> None:
    products = [catalogue[i] for i in range(len(catalogue))]
    first, second = draw(products, 233), draw(products, 1)
    assert not np.array_equal(first.caps, second.caps)
    assert not np.array_equal(first.amounts, second.amounts)
    assert not np.array_equal(shuffled(100, 233), shuffled(100, 1))


def test_goals_are_found_by_index_only_within_bounds(catalogue: Catalogue) -> None:
    goals = catalogue.goals
    for outside in (-1, len(goals)):
        with pytest.raises(IndexError):
            goals[outside]
    sources = goals.sources()
    for number in range(0, len(goals), 97):
        assert goals[number].product.asin == catalogue[sources[number]].asin

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.worlds.webshop.catalogue import NO_CAP, Catalogue, Goal, Goals, Product, shuffled
from ldm.worlds.webshop.reward import Titles, alike, color, reward
from tests.worlds.webshop.conftest import Parses, edge_files, human_goals, lines
from tests.worlds.webshop.shop import draw, products_of

SHIRT = Product(
    asin="B1",
    title="Cotton Shirt",
    description="Soft and warm.",
    bullets=("Machine wash",),
    options=(("size", ("large", "x-large")), ("color", ("light grey", "red"))),
    prices=(20.0,),
    category="fashion",
    query="shirts",
    product_category="Clothing › Men › Shirts",
    attributes=("long sleeve",),
    nouns=("cotton", "shirt"),
)
GOAL = Goal(SHIRT, "a shirt", ("long sleeve",), (("size", "x-large"), ("color", "red")), 30.0)


def purchase_reward(goal: Goal = GOAL, product: Product = SHIRT, **options: str) -> float:
    """Buying it for 20 dollars."""
    return reward(goal, product, options, 20.0, Titles())


def check(path: Path, goals: Goals, products: list[Product], nouns: Titles) -> int:
    by_asin = {product.asin: product for product in products}
    rows = lines(path)
    for row in rows:
        goal, product = goals[row["goal_index"]], by_asin[row["asin"]]
        result = reward(goal, product, row["options"], row["price"], nouns)
        assert result == row["reward"], (path.name, row["index"])
    return len(rows)


def test_rewards_are_official(catalogue: Catalogue, golden: Path, parses: Parses) -> None:
    products = [catalogue[i] for i in range(len(catalogue))]
    assert check(golden / "rewards.jsonl", catalogue.goals, products, Titles(parses)) == 3000


def test_exact_purchases(catalogue: Catalogue, golden: Path, parses: Parses) -> None:
    nouns = Titles(parses)
    rows = lines(golden / "rewards_exact_purchase_all_goals.jsonl")
    sources = catalogue.goals.sources()
    for row in rows:
        goal = catalogue.goals[row["goal_index"]]
        price = catalogue.amounts[sources[row["goal_index"]]]
        options = dict(goal.options)  # type: ignore[arg-type]
        assert reward(goal, goal.product, options, float(price), nouns) == row["reward"]
    assert sum(row["reward"] < 1 for row in rows) > 200


def test_human_goals(official: Path, golden: Path, parses: Parses) -> None:
    products, goals = human_goals(official, golden)
    assert check(golden / "rewards_human.jsonl", goals, products, Titles(parses)) == 163


@pytest.mark.slow
def test_rewards_of_the_edge_products_are_the_official_ones(golden: Path, parsed: Titles) -> None:
    products, _ = products_of(edge_files(golden))
    prices = draw(products)
    goals = Goals(products, prices, shuffled(int(prices.counts.sum())))
    assert check(golden / "edge/rewards.jsonl", goals, products, parsed) == 287


def test_titles_are_parsed_officially(catalogue: Catalogue, parses: Parses, parsed: Titles) -> None:
    for i in range(0, len(catalogue), 10):
        assert parsed.nouns(catalogue[i]) == parses[catalogue[i].title]


def test_colours_are_normalised_as_officially(golden: Path) -> None:
    for row in lines(golden / "normalize.jsonl"):
        assert color(row["input"]) == row["output"]


def test_texts_are_compared_as_officially(golden: Path) -> None:
    for row in lines(golden / "fuzz_pairs.jsonl"):
        one, other = (str(tuple(t)) if isinstance(t, list) else t for t in (row["a"], row["b"]))
        assert alike(one, other) == row["score"], row


def test_each_missing_part_costs_its_share() -> None:
    assert purchase_reward(size="x-large", color="red") == 1.0
    assert purchase_reward(size="x-large") == 0.75
    assert purchase_reward() == 0.5
    assert reward(GOAL, SHIRT, {}, 30.01, Titles()) == 0.25
    assert reward(GOAL, SHIRT, {}, 30.0, Titles()) == 0.5


def test_another_kind_of_product_earns_nothing_without_a_noun_in_common() -> None:
    other = replace(SHIRT, nouns=("desk",))
    assert purchase_reward(product=other, size="x-large", color="red") == 0.0
    near = replace(SHIRT, nouns=("shirt",), query="x", product_category="y")
    assert purchase_reward(product=near) == 0.5
    goal = replace(GOAL, product=replace(SHIRT, nouns=("shirt", *"abcdefg")))
    assert purchase_reward(goal, near) == 0.25
    goal = replace(GOAL, product=replace(SHIRT, nouns=("shirt", *"abcdefghijkl")))
    assert purchase_reward(goal, near) == 0.05


def test_a_goal_without_options_has_no_option_part() -> None:
    assert purchase_reward(replace(GOAL, options=(), price_cap=NO_CAP), size="small") == 1.0


def test_titles_are_parsed_once_and_only_where_no_nouns_are_given() -> None:
    titles = []

    class Counting(Titles):
        def _parse(self, title: str) -> tuple[str, ...]:
            titles.append(title)
            return ("noun",)

    nouns = Counting({"Known": ("known",)})
    product = replace(SHIRT, nouns=None)
    assert nouns.nouns(SHIRT) == ("cotton", "shirt")
    assert nouns.nouns(replace(product, title="Known")) == ("known",)
    assert nouns.nouns(product) == nouns.nouns(product) == ("noun",)
    assert titles == ["Cotton Shirt"]

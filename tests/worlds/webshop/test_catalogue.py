import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import LdmError
from ldm.records import Problem
from ldm.worlds.webshop import data
from ldm.worlds.webshop.catalogue import Files, Product, stream_array
from tests.worlds.webshop.conftest import edge_files, lines
from tests.worlds.webshop.shop import annotation, products_of, raw, write_shop


def read(folder: Path, *, human: bool = False) -> tuple[list[Product], list[Problem]]:
    return products_of(Files.find(folder, human=human))


def one(tmp_path: Path, **changes: Any) -> Product:
    product = raw(0, **changes)
    ((parsed,), problems) = read(write_shop(tmp_path, [product], {product["asin"]: annotation(0)}))
    assert not problems
    return parsed


def test_option_names_are_lower_case_and_values_stripped_too(tmp_path: Path) -> None:
    options = {"Size ": [{"value": " A/B "}, {"value": "c / d"}], "Color": None, "Fit": []}
    assert one(tmp_path, customization_options=options).options == (
        ("size ", ("a | b", "c  |  d")),
        ("fit", ()),
    )


def test_names_equal_in_lower_case_merge_and_the_last_one_wins(tmp_path: Path) -> None:
    options = {"Size": [{"value": "1"}], "SIZE": [{"value": "2"}]}
    assert one(tmp_path, customization_options=options).options == (("size", ("2",)),)


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [(None, (100.0,), "$100.0"), ("", (100.0,), "$100.0"), ("$1,234.50", (1234.5,), "$1234.5"),
     ("$7.07$8.23", (7.07, 8.23), "$7.07 to $8.23"), ("$5.00 - $7.00", (5.0, 7.0), "$5.0 to $7.0"),
     ("$1.00$2.00$3.00", (1.0, 2.0), "$1.0 to $2.0"), ("$-5.00", (5.0,), "$5.0")],
)  # fmt: skip
def test_prices_are_read(tmp_path: Path, pricing: str | None, prices: Any, tag: str) -> None:
    product = one(tmp_path, pricing=pricing)
    assert (product.prices, product.price_tag) == (prices, tag)


def test_odd_asins_and_repeated_ones_are_left_out_without_a_word(tmp_path: Path) -> None:
    rows = [raw(0, name="first"), raw(1, asin="nan"), raw(2, asin="B0123456789"), raw(0)]
    products, problems = read(write_shop(tmp_path, rows, {}))
    assert [product.title for product in products] == ["first"]
    assert problems == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("pricing", "Currently unavailable"), ("pricing", "$Free"), ("pricing", "$1.2.3"),
     ("pricing", [5.0]), ("images", []), ("query", None), ("name", 7),
     ("customization_options", {"Size": [{"image": None}]}), ("small_description", [None])],
)  # fmt: skip
def test_a_bad_product_is_reported_and_skipped(tmp_path: Path, field: str, value: Any) -> None:
    rows = [raw(0), raw(1, **{field: value}), raw(2)]
    folder = write_shop(tmp_path, rows, {})
    products, (problem,) = read(folder)
    assert [product.asin for product in products] == ["B000000000", "B000000002"]
    assert (problem.line, problem.field) == (2, field)
    assert "product 2 (B000000001)" in str(problem)


def test_what_is_no_product_at_all_is_reported_too(tmp_path: Path) -> None:
    rows = [raw(0), 7, {"name": "no asin"}]
    products, problems = read(write_shop(tmp_path, rows, {}))
    assert len(products) == 1
    assert [(problem.line, problem.field) for problem in problems] == [(2, ""), (3, "asin")]


def test_human_instructions_without_attributes_give_no_goal(tmp_path: Path) -> None:
    human = [
        {"instruction": "a", "instruction_attributes": [], "instruction_options": []},
        {"instruction": "b", "instruction_attributes": ["x"], "instruction_options": ["red"]},
    ]
    of_first = {"B000000000": annotation(0)}
    folder = write_shop(tmp_path, [raw(0), raw(1)], of_first, {"B000000000": human})
    (first, second), _ = read(folder, human=True)
    assert [(i.text, i.options) for i in first.instructions] == [("b", ("red",))]
    assert second.instructions == ()


def test_an_array_is_streamed_over_chunks(tmp_path: Path) -> None:
    values = [{"n": i, "text": "é" * 5000} for i in range(900)]
    (tmp_path / "a.json").write_text(json.dumps(values, ensure_ascii=False, indent=1))
    assert [value for _, value in stream_array(tmp_path / "a.json")] == values


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a":', "[1, 2", '{"a": 1}', ""])
def test_a_torn_array_is_an_error_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(LdmError, match=r"a\.json") as torn:
        list(stream_array(tmp_path / "a.json"))
    assert torn.value.remedy


def test_missing_and_ambiguous_files_are_named(tmp_path: Path, small: Path) -> None:
    with pytest.raises(LdmError, match="items_shuffle"):
        Files.find(tmp_path, human=False)
    with pytest.raises(LdmError, match="items_human_ins"):
        Files.find(small, human=True)
    for name in ("items_shuffle.json", "items_shuffle_1000.json"):
        (tmp_path / name).write_text("[]")
    with pytest.raises(LdmError, match="several"):
        Files.find(tmp_path, human=False)


@pytest.mark.parametrize("human", [False, True])
def test_the_edge_products_load_as_officially(golden: Path, human: bool) -> None:
    edge = golden / "edge"
    products, problems = products_of(edge_files(golden, human=human))
    assert problems == []
    loaded = json.loads((edge / f"loaded_human_goals_{human}.json").read_text())["products"]
    for ours, theirs in zip(products, loaded, strict=True):
        assert {name: list(values) for name, values in ours.options} == theirs["options"]
        assert list(ours.prices) == theirs["pricing"]
        assert list(ours.bullets) == theirs["BulletPoints"]
        assert list(ours.attributes) == theirs["Attributes"]
        renamed = {"title": "Title", "description": "Description", "price_tag": "Price"}
        for name in ("asin", "category", "query", "product_category", *renamed):
            assert getattr(ours, name) == theirs[renamed.get(name, name)]


def test_odd_values_load_or_are_refused_as_officially(golden: Path, tmp_path: Path) -> None:
    for number, case in enumerate(json.loads((golden / "edge" / "load_cases.json").read_text())):
        row = raw(0, **case["changed"])
        folder = write_shop(tmp_path / str(number), [row], {row["asin"]: annotation(0)})
        products, problems = read(folder)
        if "exception" in case["result"]:
            assert len(problems) == 1, case["case"]
            continue
        ((product,), result) = products, case["result"]
        if "pricing" in case["changed"]:
            assert list(product.prices) == result["pricing"], case["case"]
            assert product.price_tag == result["Price"]
        if "customization_options" in case["changed"]:
            assert {name: list(values) for name, values in product.options} == result["options"]


def test_the_official_small_set_is_whole(official: Path) -> None:
    for file in data.FILES["small"]:
        if file.sha256:
            content = (official / file.filename).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file.sha256
    report = data.check(official)
    assert (report.facts["products"], report.facts["goals"]) == (1000, {"synthetic": 6910})
    assert not report.problems


def test_the_indexed_text_is_the_official_one(catalogue: Any, golden: Path) -> None:
    documents = lines(golden / "search_docs.jsonl")
    assert [(p.asin, p.search_text) for p in (catalogue[i] for i in range(len(catalogue)))] == [
        (one["id"], one["contents"]) for one in documents
    ]

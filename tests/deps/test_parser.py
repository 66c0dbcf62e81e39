"""The goal parser: from what planners write to goals that the controller knows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldm.deps.parser import MOST_GOALS, Parser, Vocabulary, nearest, words_of
from ldm.types import Card
from tests.cases import cases
from tests.deps.workshop import CARD
from tools import noisy_plans as noisy

ITEMS = {
    "mine": "log oak_log cobblestone wool beef coal iron_ore wheat_seeds diamond oak_leaves",
    "craft": "planks stick torch oak_stairs bookshelf crafting_table wooden_pickaxe stone_axe "
    "chest shears furnace leather_boots glass_bottle",
    "smelt": "iron_ingot glass cooked_beef charcoal",
    "kill": "cow sheep",
    "equip": "iron_helmet leather_boots",
}
BIG = replace(
    CARD,
    goals=tuple(
        f"{verb} {'' if verb == 'equip' else '1 '}{item}"
        for verb, items in ITEMS.items()
        for item in items.split()
    ),
)
VOCABULARY = Vocabulary.of(BIG)
PARSER = Parser(VOCABULARY)


def read(text: str, parser: Parser = PARSER) -> list[str]:
    return [goal.words for goal in parser.plan(text).goals]


def test_a_line_may_name_alternatives() -> None:
    lines = "step 1: mine 2 log or oak_log or mine 3 coal\nmine({'log': 1}, null) or craft stick;"
    first, second = PARSER.plan(lines).goals
    assert [one.words for one in first.others] == ["mine 2 oak_log", "mine 3 coal"]
    assert {one.rank for one in first.others} == {first.rank}
    assert second.others == ()  # another kind of goal is no alternative


@pytest.mark.parametrize(("line", "goal"), cases(__file__, "a_line_is_read"))
def test_a_line_is_read(line: str, goal: str) -> None:
    assert read(line) == [goal]


def test_materials_tool_rank_and_text_are_kept() -> None:
    text = "craft({'torch': 4}, {'coal': 1, 'stick': 1}, 'crafting_table'); # step 9: torches"
    (goal,) = PARSER.plan(f"chatter\n{text}").goals
    assert goal.materials == (("coal", 1), ("stick", 1))
    assert (goal.tool, goal.rank) == ("crafting_table", 1)
    assert goal.text == text.partition(";")[0]


def test_a_comment_counts_only_where_its_call_cannot_be_read() -> None:
    assert read("mine({'log': 3}) # step 1: mine 5 coal") == ["mine 3 log"]
    assert read("gather(([ # step 1: mine 5 coal") == ["mine 5 coal"]
    assert read("# step 1: mine 5 coal\ngather_it()") == ["mine 5 coal"]
    assert read("# step 1: mine 3 logs\nmine({'log': 3}, null)") == ["mine 3 log"]
    assert read("# step 1: mine 3 logs\n# step 2: craft 4 sticks") == [
        "mine 3 log",
        "craft 4 stick",
    ]


def test_code_and_chatter_around_a_plan_are_no_steps() -> None:
    text = """Sure! This takes some wood.
```python
from actions import mine_log
def obtain_planks(inventory = {}):
    mine_log(num = 1); # step 1
    craft_planks(num = 4);
    return "planks"
```
Good luck!"""
    plan = PARSER.plan(text)
    assert [goal.words for goal in plan.goals] == ["mine 1 log", "craft 4 planks"]
    assert plan.dropped == ()


def test_what_names_no_goal_is_dropped() -> None:
    plan = PARSER.plan("step 1: dance\nstep 2: mine 1 log\nfly({'moon': 1})")
    assert [goal.words for goal in plan.goals] == ["mine 1 log"]
    assert plan.dropped == ("step 1: dance", "fly({'moon': 1})")


def test_no_more_goals_are_read_than_a_plan_may_have() -> None:
    assert len(read("step 1: mine 1 log\n" * 500)) == MOST_GOALS
    assert len(read("step 1: mine 1 log\n" * 500, Parser(VOCABULARY, most=3))) == 3


def test_plurals_and_underscores_do_not_matter() -> None:
    for one, other in (
        ("torch", "Torches"), ("oak_leaves", "oak leaf"), ("shears", "shear"),
        ("glass", "glasses"), ("berry", "berries"), ("cookie", "cookies"), ("axe", "axes"),
    ):  # fmt: skip
        assert words_of(one) == words_of(other)
    assert len({words_of(item) for item in ("log", "planks", "glass", "grass", "stick")}) == 5


class Synonyms:
    """An embedder that knows two pairs of words."""

    name, dimension = "synonyms", 3

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), 3), np.float32)
        for row, text in enumerate(texts):
            if "log" in text or "tree" in text:
                rows[row, 0] = 1
            elif "sheep" in text or "lamb" in text:
                rows[row, 1] = 1
            else:
                rows[row, 2] = 0.1 if "moon" in text else 1
        return rows


def test_what_the_rules_do_not_know_is_looked_up_by_its_meaning() -> None:
    parser = Parser(VOCABULARY, partial(nearest, VOCABULARY, Synonyms))
    assert read("step 1: fell 3 trees\nslaughter({'lamb': 2})", parser) == [
        "mine 3 log",
        "kill 2 sheep",
    ]
    assert read("step 1: go to the moon", parser) == []  # below the floor


def test_the_embedder_is_loaded_only_where_the_rules_do_not_do() -> None:
    def load() -> Synonyms:
        raise AssertionError("it was loaded")

    assert read("step 1: mine 1 log", Parser(VOCABULARY, partial(nearest, VOCABULARY, load))) == [
        "mine 1 log"
    ]


class TestOtherEnvironments:
    TABLE = Card(
        "table",
        "",
        ("put the COLOR block in the COLOR bowl: move it", "look: say what is where"),
        goals=("put the red block in the red bowl", "look"),
    )
    ROOM = Card("room", "", ("go to PLACE", "take THING from PLACE"))

    def test_goals_in_sentences_have_the_forms_of_the_grammar(self) -> None:
        parser = Parser(Vocabulary.of(self.TABLE))
        plan = parser.plan(
            "1. put the red block in the red bowl.\n2. Put the blue block in the red bowl\n"
            "3. dance\nSo much for that."
        )
        assert [parser.vocabulary.action(goal) for goal in plan.goals] == [
            "put the red block in the red bowl",
            "put the blue block in the red bowl",
        ]
        assert plan.dropped == ("3. dance",)

    def test_elsewhere_each_numbered_line_is_a_sub_task(self) -> None:
        plan = Parser(Vocabulary.of(self.ROOM)).plan(
            "The plan:\n#1 find a mug\nStep 2: put it on the desk.\n3) done\n"
        )
        assert [goal.text for goal in plan.goals] == ["find a mug", "put it on the desk", "done"]


@pytest.mark.parametrize("faults", [0, 1, 2, 3])
def test_noisy_plans_are_read(faults: int) -> None:
    items = {verb: sorted(own) for verb, own in VOCABULARY.items.items()}
    written = read_ = 0
    for number in range(150):
        goals, text = noisy.noisy_plan(number, items, faults)
        written += len(goals)
        read_ += noisy.recovered(goals, PARSER.plan(text).goals)
    assert read_ >= {0: 1.0, 1: 0.99, 2: 0.98, 3: 0.96}[faults] * written


@given(st.text(max_size=300) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_without_an_error(text: str) -> None:
    for vocabulary in (VOCABULARY, Vocabulary.of(TestOtherEnvironments.TABLE)):
        plan = Parser(vocabulary).plan(text)
        assert len(plan.goals) <= MOST_GOALS


def test_nothing_is_evaluated(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"mine({{'log': __import__('pathlib').Path({str(mark)!r}).touch()}}, null)"
    PARSER.plan(text)
    assert not mark.exists()

"""The other cases of LDM²'s Table 3, followed by models that imitate what their prompts show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldm.episode import run_episode
from ldm.explore.tree import path_to
from ldm.memory import Memory
from ldm.types import EpisodeResult, Trajectory
from tests.integration.paper_method import Method
from tests.integration.paper_shop import Bathroom, Errand, Product, Shop, shopper, tidier
from tests.integration.paper_world import played

SUBWOOFER = Errand(
    "I am looking for a high power sound column subwoofer, bluetooth, 3d surround sound system, "
    "and price lower than 650.00 dollars",
    (
        Product("RRQ", "bluetooth speaker, portable, small, 3d surround sound system", {"": 0.5}),
        Product(
            "TS6",
            "bluetooth speaker 60W high power sound column subwoofer 3d surround sound system",
            {"": 1.0},
        ),
    ),
)
SHOES = Errand(
    "I need khaki steel toe shoes in size 11 women, and price lower than 70.00 dollars",
    (
        Product(
            "LJH",
            "khaki steel toe shoes",
            {"khaki, 10.5 women | 9 men": 0.75},
            {"color": ("black", "khaki"), "size": ("10.5 women | 9 men", "11.5 women | 9.5 men")},
        ),
        Product(
            "Q2K",
            "steel toe shoes, khaki",
            {"khaki, 11 women | 9 men": 1.0},
            {"color": ("khaki", "grey"), "size": ("10.5 women | 8.5 men", "11 women | 9 men")},
        ),
    ),
)
#: Other things that people bought: what they are, and what a better one has.
THINGS = ("lamp", "kettle", "radio", "heater", "mixer")


def play(method: Method, memory: Memory, task: str) -> tuple[EpisodeResult, list[str]]:
    """What the agent of the preset comes to at a task, and its actions."""
    player, _ = method.agent(memory)
    result, trials = run_episode(method.world, player, method.world.task(task))
    return result, [step.action for step in trials[result.submitted].steps]


def errand(thing: str, *, options: bool) -> Errand:
    """Somebody's errand: the first product lacks something, unless the options make it fit."""
    goal = f"I am looking for a strong {thing}, dimmable, and price lower than 90.00 dollars"
    if options:
        sizes = {"size": ("small", "large")}
        first = Product("AA1", f"strong {thing}, dimmable", {"large": 1.0}, sizes)
        return Errand(goal, (first, Product("BB2", f"{thing}", {"large": 1.0}, sizes)))
    better = Product("BB2", f"strong {thing}, dimmable", {"": 1.0})
    return Errand(goal, (Product("AA1", f"{thing}, dimmable", {"": 1.0}), better))


def shop_of(case: Errand, *, options: bool) -> Shop:
    others = {f"human/{thing}": errand(thing, options=options) for thing in THINGS}
    return Shop({"train/1": case, "test/1": case, **others})


def people(shop: Any, ways: Sequence[Sequence[str]]) -> list[Trajectory]:
    """What people did; `ways` are taken in turn."""
    names = [task.id for task in shop.tasks("human")]
    return [played(shop, name, ways[n % len(ways)]) for n, name in enumerate(names)]


class TestSubwoofer:
    """Upper left: what the memory shows decides whether a product that lacks something is left."""

    ONWARDS = ("search[thing]", "click[AA1]", "click[< Prev]", "click[BB2]", "click[Buy Now]")
    AT_ONCE = ("search[thing]", "click[AA1]", "click[Buy Now]")

    def test_a_product_is_left_as_people_left_theirs(self, tmp_path: Path) -> None:
        shop = shop_of(SUBWOOFER, options=False)
        method = Method("ldm2-table1", shop, shopper, 8)
        memory, _ = method.form(str(tmp_path / "m"), people(shop, [self.ONWARDS]), 5)
        result, actions = play(method, memory, "test/1")
        assert actions[:2] == ["search[high power sound column subwoofer]", "click[RRQ]"]
        assert actions[2:] == ["click[< Prev]", "click[TS6]", "click[Buy Now]"]
        assert result.score == 1.0

    def test_it_is_bought_as_people_bought_theirs(self, tmp_path: Path) -> None:
        """What the paper prints for ReAct, whose demonstrations buy at once."""
        shop = shop_of(SUBWOOFER, options=False)
        method = Method("ldm2-table1", shop, shopper, 8)
        memory, _ = method.form(str(tmp_path / "m"), people(shop, [self.AT_ONCE]), 5)
        result, actions = play(method, memory, "test/1")
        assert actions[1:] == ["click[RRQ]", "click[Buy Now]"]
        assert result.score == 0.5


def test_a_product_with_all_options_is_found_by_refinement(tmp_path: Path) -> None:
    """Upper right: before, the first product and a size near the right one; after, another."""
    shop = shop_of(SHOES, options=True)
    method = Method("ldm2-table1", shop, shopper, 8)
    place = str(tmp_path / "m")
    ways = [
        ("search[thing]", f"click[{code}]", "click[large]", "click[Buy Now]")
        for code in ("AA1", "BB2")
    ]
    initial, _ = method.form(place, people(shop, ways), 5)
    result, actions = play(method, initial, "test/1")
    first = ["click[LJH]", "click[khaki]", "click[10.5 women | 9 men]", "click[Buy Now]"]
    assert actions[1:] == first
    assert result.score == 0.75
    refined, refinement = method.refine(place, initial, "train/1")
    (tree,) = refinement.trees
    better = ["click[Q2K]", "click[khaki]", "click[11 women | 9 men]", "click[Buy Now]"]
    assert [node.action for node in path_to(tree.nodes, tree.nodes[tree.best])[2:]] == better
    assert tree.best_score == 1.0
    # Eq. 10: from the first step on that differs.
    assert [row.tuple.action for row in tree.added] == better
    result, actions = play(method, refined, "test/1")
    assert actions[1:] == better
    assert result.score == 1.0


def test_two_soapbars_are_looked_for_where_people_looked(tmp_path: Path) -> None:
    """Lower left: the countertop, and not one cabinet after the other."""
    things = ("cloth", "candle", "spraybottle", "toiletpaper", "handtowel")
    room = Bathroom({"test/1": "soapbar", **{f"human/{thing}": thing for thing in things}})
    method = Method("ldm2-table2", room, tidier, 12)

    def way(thing: str) -> list[str]:
        rest = (
            (
                "go to countertop 1",
                f"take {thing} {n} from countertop 1",
                "go to garbagecan 1",
                f"put {thing} {n} in/on garbagecan 1",
            )
            for n in (1, 3)
        )
        return ["go to cabinet 1", "open cabinet 1", *(action for part in rest for action in part)]

    episodes = [played(room, f"human/{thing}", way(thing)) for thing in things]
    memory, _ = method.form(str(tmp_path / "m"), episodes, 5)
    result, actions = play(method, memory, "test/1")
    assert result.success
    assert actions == way("soapbar")

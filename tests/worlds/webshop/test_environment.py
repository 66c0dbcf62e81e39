import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import LdmError
from ldm.run.building import read_trajectories
from ldm.types import Step, Task, Trajectory
from ldm.worlds.webshop import WebShop, WebShopOptions, reward
from ldm.worlds.webshop.environment import OFFICIAL_SPLITS, World
from ldm.worlds.webshop.pages import BOUGHT, CLICKED, INVALID
from tests.conftest import CHECKOUT
from tests.worlds.webshop.shop import annotation, raw, write_shop


@pytest.fixture
def env(small: Path, small_world: World) -> WebShop:
    return WebShop(WebShopOptions(data=str(small)), world=small_world)


def task_for(env: WebShop, asin: str) -> Task:
    return next(task for task in env.tasks("test") if task.source == asin)


def test_the_search_page_holds_the_instruction_and_one_search(env: WebShop) -> None:
    task = env.tasks("test")[0]
    now = env.reset(task)
    assert now.observation == f"Webshop \nInstruction:  \n{task.goal} \n[Search] "
    assert now.admissible == (f"search[{task.goal}]",)
    assert not now.done
    assert now.valid


def test_shopping_from_the_search_to_the_purchase(env: WebShop) -> None:
    task = task_for(env, "B000000003")
    env.reset(task)
    results = env.step(f"search[{task.goal}]")
    assert results.observation.startswith("[Back to Search] \nPage 1 (Total results: ")
    assert results.admissible is not None
    assert results.admissible[:2] == ("click[Back to Search]", "click[Next >]")
    item = env.step("click[B000000003]")
    assert item.observation == (
        "[Back to Search] \n[< Prev] \ncolor [black][light blue][rose]\n"
        "size [small][large][x-large]\nNumber 3 Soap \nPrice: $8.5 \nRating: N.A. \n"
        "[Description] \n[Features] \n[Reviews] \n[Buy Now] "
    )
    options = {
        name: task.goal.partition(f"{name}: ")[2].partition(",")[0] for name in ("color", "size")
    }
    for value in options.values():
        chosen = env.step(f"click[{value}]")
        assert chosen.observation == f"You have clicked {value}."
        assert chosen.admissible == item.admissible
    purchase = env.step("click[Buy Now]")
    assert purchase.done
    assert purchase.reward == 1.0
    assert purchase.observation == BOUGHT
    assert purchase.admissible == ()


def test_nothing_follows_a_purchase(env: WebShop) -> None:
    task = task_for(env, "B000000003")
    env.reset(task)
    for action in ("search[soap]", "click[B000000003]", "click[buy now]"):
        last = env.step(action)
    assert last.done
    with pytest.raises(RuntimeError):
        env.step("search[soap]")
    assert env.reset(task).observation.startswith("Webshop")


def test_an_invalid_action_answers_as_the_published_runners_do(env: WebShop) -> None:
    env.reset(env.tasks("test")[0])
    answer = env.step("click[Buy Now]")
    assert (answer.observation, answer.valid, answer.reward) == (INVALID, False, 0.0)


def test_the_official_modes_repeat_the_page_on_an_invalid_action(small: Path) -> None:
    for mode in ("text", "text_rich"):
        env = WebShop(WebShopOptions(data=str(small), observation=mode))
        opening = env.reset(env.tasks("test")[0])
        assert env.step("click[Buy Now]") == replace(opening, valid=False)


def test_values_that_no_action_can_name_are_not_listed(tmp_path: Path) -> None:
    values = ["kit [mini]", "a]b", "search", "two\nlines", " ", "buy now", "fine"]
    options = {"Style": [{"value": value} for value in values]}
    product = raw(0, customization_options=options)
    folder = write_shop(tmp_path, [product], {product["asin"]: annotation(0)})
    env = WebShop(WebShopOptions(data=str(folder)))
    env.reset(env.tasks("test")[0])
    env.step("search[lamp]")
    actions = env.step("click[B000000000]").admissible
    assert actions is not None
    assert actions[-3:] == ("click[buy now]", "click[a]b]", "click[fine]")
    for action in actions:
        twin = env.fork()
        assert twin.step(action).valid


def test_the_leakage_gate_compares_products(env: WebShop) -> None:
    for task in env.tasks("test"):
        assert task.leak_key == task.source
        assert task.source.startswith("B0")
        assert task.kind == "buy"


def many_goals(folder: Path) -> Path:
    """1,700 products with one goal each, and one product that has goals in every split."""
    products = [raw(i, customization_options="") for i in range(1, 1701)]
    sizes = {"Size": [{"value": f"{i} cm"} for i in range(300)]}
    products.append(raw(0, customization_options=sizes))
    attributes = {p["asin"]: annotation(int(p["asin"][1:])) for p in products}
    return write_shop(folder, products, attributes)


def test_splits_go_by_session_number_and_train_shares_no_product(tmp_path: Path) -> None:
    env = WebShop(WebShopOptions(data=str(many_goals(tmp_path))))
    test, dev, train = (env.tasks(split) for split in ("test", "dev", "train"))
    assert [task.id for task in test] == [f"test/{i}" for i in range(500)]
    assert [task.id for task in dev] == [f"dev/{i}" for i in range(500, 1500)]
    numbers = [int(task.id.partition("/")[2]) for task in train]
    assert numbers == sorted(numbers)
    assert min(numbers) >= 1500
    held_back = {task.source for task in (*test, *dev)}
    assert "B000000000" in held_back
    assert held_back.isdisjoint(task.source for task in train)
    assert len(train) == 1700 - len(held_back - {"B000000000"})
    assert train[0] == train[:1][0] == next(iter(train))


def test_official_training_goals_share_no_product_with_others(world: World, official: Path) -> None:
    env = WebShop(WebShopOptions(data=str(official)), world=world)
    test, dev, train = (env.tasks(split) for split in OFFICIAL_SPLITS)
    assert (len(test), len(dev)) == (500, 1000)
    held_back = {task.source for task in (*test, *dev)}
    assert held_back.isdisjoint(task.source for task in train)
    sources = world.goals.sources()
    shared = np.isin(sources[:500], sources[1500:])
    # Without leaving products out nearly all test goals would share one with training goals.
    assert shared.sum() == 479
    assert len(train) == 341


def test_the_protocol_tells_what_makes_scores_differ(small: Path) -> None:
    def fingerprint(**changes: Any) -> str:
        env = WebShop(WebShopOptions(data=str(small), **changes))
        env.tasks("test")
        return json.dumps(env.protocol(), sort_keys=True)

    changes: dict[str, Any] = {"seed": 1, "num_products": 20, "observation": "text", "page_size": 3}
    changes |= {"admissible": False}
    kinds = [fingerprint(), *(fingerprint(**{name: value}) for name, value in changes.items())]
    assert len(set(kinds)) == len(kinds)


def test_human_goals_are_another_protocol(tmp_path: Path) -> None:
    attributes, options = ["good lamp"], ["rose"]
    wanted = {"instruction_attributes": attributes, "instruction_options": options}
    human = {"B000000000": [{"instruction": "a lamp.", **wanted}]}
    folder = write_shop(tmp_path, [raw(0)], {"B000000000": annotation(0)}, human)
    synthetic, human_env = (
        WebShop(WebShopOptions(data=str(folder), goals=goals)) for goals in ("synthetic", "human")
    )
    (task,) = human_env.tasks("test")
    assert task.goal.startswith("a lamp, and price lower than ")
    assert len(synthetic.tasks("test")) == 9
    assert synthetic.protocol() != human_env.protocol()
    with pytest.raises(LdmError, match="no goal") as empty:
        human_env.tasks("train")
    assert empty.value.remedy


def test_a_missing_parser_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product = raw(0, title_nouns=None)
    folder = write_shop(tmp_path, [product], {product["asin"]: annotation(0)})
    monkeypatch.setattr(reward, "_installed", lambda: None)
    with pytest.raises(LdmError, match="en_core_web_sm") as missing:
        WebShop(WebShopOptions(data=str(folder))).tasks("test")
    assert "ldm-memory[webshop]" in missing.value.remedy


def test_unknown_tasks_are_refused(env: WebShop) -> None:
    task = env.tasks("test")[0]
    for name in ("test/999999", "test/x", "test"):
        with pytest.raises(LdmError, match="no task"):
            env.reset(replace(task, id=name))


def test_recorded_episodes_are_shown_in_whole_pages_as_the_site_shows_them() -> None:
    """LDM²'s Table 5: the page stays, with a line for each chosen option below it."""
    env = WebShop(WebShopOptions(observation="page"))
    tasks = {task.id: task for task in env.tasks("demo_train")}
    chosen = 0
    for recorded in read_trajectories(CHECKOUT / "data" / "trajectories" / "webshop")[:20]:
        now = env.reset(tasks[recorded.task.id])
        for step in env.as_shown(recorded).steps[:-1]:
            now = env.step(step.action)
            assert step.observation == now.observation
            chosen += "[Buy Now]" in now.observation and "You have clicked" in now.observation
        refused = replace(recorded, steps=(*recorded.steps[:-1], Step("click[x]", INVALID)))
        assert env.as_shown(refused).steps[-1].observation == env.step("click[x]").observation
    assert chosen
    assert WebShop().as_shown(recorded) == recorded


def test_a_line_on_a_page_that_was_not_recorded_shows_nothing() -> None:
    steps = (Step("search[a]", ""), Step("click[B]", ""), Step("click[red]", CLICKED.format("red")))
    task = Task("1", "webshop", "recorded", "a", "buy")
    recorded = Trajectory(task, "", steps, 0.0, False, "human")
    shown = WebShop(WebShopOptions(observation="page")).as_shown(recorded)
    assert [step.observation for step in shown.steps] == ["", "", ""]

"""The presets of LDM² in real worlds, with players that read nothing but their prompts.

The rooms and shops are others than the memory's, so that a prompt which leaves out what the paper's
shows is felt.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldm.config import Section
from ldm.envs.webshop import WebShop, WebShopOptions
from ldm.episode import run_episode
from ldm.memory import Memory
from ldm.run.builders import build_environment
from ldm.run.building import read_trajectories, with_possible
from ldm.run.presets import preset
from tests.agents.decomposition.ideal import block
from tests.conftest import CHECKOUT
from tests.integration.paper_method import Method
from tests.integration.prompt_players import bought, buyer, householder
from tests.reason.scripted import Reply, Scripted

#: Games of each kind that are played; LDM_GAMES plays more.
GAMES = int(os.environ.get("LDM_GAMES", "1"))


def method(name: str, reply: Callable[[str], Reply]) -> Method:
    """The preset in its own environment, as its row LDM² In sets it."""
    row = next(row for row in preset(name).content.rows if row.name == "LDM² In")
    options = {**preset(name).evaluation.env.options, **row.env, "goals": None}
    options = {key: value for key, value in options.items() if value is not None}
    env = build_environment(Section.read({"name": preset(name).env, **options}))
    return Method(name, env, reply, 50)


def formed(one: Method, place: Path, people: int) -> Memory:
    """A memory of two batches of each kind, formed as the preset says from shipped episodes."""
    name = one.world.card.name
    episodes = read_trajectories(CHECKOUT / "data" / "trajectories" / name)
    chosen = [e for kind in one.world.card.kinds for e in _of(episodes, kind)[:people]]
    world = Section.read({"name": name, **one.preset.content.build.get("env", {})})
    return one.form(str(place), with_possible(chosen, world), people // 2)[0]


def _of(episodes: Any, kind: str) -> list[Any]:
    return [one for one in episodes if getattr(one, "task", one).kind == kind]


def played(one: Method, memory: Memory, tasks: list[Any]) -> tuple[list[float], list[Scripted]]:
    scores, models = [], []
    for task in tasks:
        player, model = one.agent(memory)
        result, _ = run_episode(one.world, player, task)
        scores.append(result.score)
        models.append(model)
    return scores, models


@pytest.mark.slow
def test_rooms_are_searched_by_their_own_places(tmp_path: Path) -> None:
    one = method("ldm2-table2", householder)
    memory = formed(one, tmp_path / "m", 4)
    listed = one.world.tasks("demo_test")
    tasks = [task for kind in one.world.card.kinds for task in _of(listed, kind)[:GAMES]]
    scores, _ = played(one, memory, tasks)
    assert sum(scores) >= 0.9 * len(scores)


@pytest.mark.slow
def test_products_are_bought_as_by_somebody_who_sees_the_pages(tmp_path: Path) -> None:
    one = method("ldm2-table1", buyer)
    memory = formed(one, tmp_path / "m", 4)
    tasks = list(one.world.tasks("demo_test")[: 4 * GAMES])
    scores, models = played(one, memory, tasks)
    sighted = WebShop(WebShopOptions(observation="page"))
    best = []
    for task in tasks:
        now = sighted.reset(task)
        while not now.done:
            now = sighted.step(bought(task.goal, now.observation))
        best.append(now.reward)
    assert scores == best
    pages = [block("now", m[-1].content) for model in models for m in model.prompts]
    options = [page for page in pages if "You have clicked" in page]
    assert options
    assert all("[Buy Now]" in page for page in options)

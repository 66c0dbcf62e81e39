"""Ideal models reproduce the dialogues of the DEPS paper: App. H's diamond, App. G's stone sword.

What is compared is the causes of failure: the inventories of App. H contradict one another
(docs/decisions/agents.md#deps). The plans are those of the dialogues, with their quotes.
"""

from typing import Any

import pytest

from ldm.deps.select import REPORTING
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tests.cases import cases
from tests.deps.ideal import Ideal, play


@pytest.mark.parametrize("method", ["dep", "gpt_rp"])
@pytest.mark.parametrize("trace", cases(__file__, "dialogues"), ids=lambda trace: trace["item"])
def test_the_dialogue_of_the_paper(trace: dict[str, Any], method: str) -> None:
    options = MinecraftOptions(
        controller="none", rules="paper", tools="stated", feedback="fine", given="none"
    )
    env = Minecraft(options)
    task = next(task for task in env.tasks("test") if task.source == trace["item"])
    plans, failures = trace["plans"], trace["failures"]
    ideal = Ideal(plans, {"failed": "Something is missing."})

    result, _, rounds = play(env, ideal.model(), task, method=method)

    assert (result.success, result.end) == (True, "done")
    assert [len(one["goals"]) for one in rounds] == [len(plan.splitlines()) for plan in plans]
    assert all(one["dropped"] == [] for one in rounds)
    assert [one["failed"] for one in rounds] == [*(step for step, _ in failures), None]
    for one, (_, lacking) in zip(rounds[:-1], failures, strict=True):
        assert lacking in one["description"].partition("The answer was:")[2].partition("I hold")[0]
    assert ideal.requests.count("explain") == (len(failures) if method == "dep" else 0)
    tree = REPORTING.tree(result)
    assert tree is not None
    assert tree.columns["plans"] == str(len(plans))

from __future__ import annotations

import json

import pytest

from ldm import records
from ldm.agents.demonstrations import SHIPPED
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.demonstrations import RULES, demonstrations


@pytest.mark.parametrize("name", RULES)
def test_the_shipped_demonstrations_are_those_that_the_rules_make(name: str) -> None:
    rules = RULES[name]
    recorded = records.read(CHECKOUT / "data" / "trajectories" / rules.file, Trajectory)
    episodes, plans = demonstrations(rules, recorded)
    assert records.read(SHIPPED / f"{name}.jsonl", Trajectory) == episodes
    assert json.loads((SHIPPED / f"{name}.plans.json").read_text(encoding="utf-8")) == plans

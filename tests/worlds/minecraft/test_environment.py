from __future__ import annotations

from typing import Any, ClassVar

from ldm.testing import EnvironmentContract


class TestOracle(EnvironmentContract):
    name = "minecraft"
    split = "test"
    steps = 20


class TestPaperController(EnvironmentContract):
    name = "minecraft"
    split = "test_worlds"
    options: ClassVar[dict[str, Any]] = {"controller": "paper", "rules": "paper", "tools": "stated"}


class TestRecipesAlone(EnvironmentContract):
    name = "minecraft"
    split = "test"
    options: ClassVar[dict[str, Any]] = {"controller": "none"}


class TestSeveralGoals(EnvironmentContract):
    name = "minecraft"
    split = "parallel"
    options: ClassVar[dict[str, Any]] = {"slice": 150, "feedback": "fine"}

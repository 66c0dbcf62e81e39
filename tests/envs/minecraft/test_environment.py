from __future__ import annotations

from typing import Any, ClassVar

from ldm.testing import EnvironmentContract


class TestRecipesAlone(EnvironmentContract):
    name = "minecraft"
    split = "test"
    options: ClassVar[dict[str, Any]] = {"controller": "none"}

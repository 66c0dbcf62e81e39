"""A paper's way of making its memory, from its preset: what it says, and what wins over it."""

from __future__ import annotations

import pytest

from ldm.errors import LdmError
from ldm.explore import RefineOptions
from ldm.options import settings
from ldm.policy import PolicyOptions
from ldm.run.preset_memory import RefinementPreset, build_settings, stage_preset
from ldm.run.presets import list_presets
from ldm.run.specs import RefinementSpec


class TestBuilding:
    @pytest.mark.parametrize(
        ("env", "size", "per_kind"), [("alfworld", 50, 200), ("webshop", 100, 0)]
    )
    def test_is_as_published(self, env: str, size: int, per_kind: int) -> None:
        published = {"env": env, "formation": "paper", "batch_size": size, "per_kind": per_kind}
        assert build_settings("ldm2", env) == {k: v for k, v in published.items() if v}

    def test_needs_no_environment_where_the_name_says_it(self) -> None:
        assert build_settings("ldm2-table1", "")["env"] == "webshop"

    @pytest.mark.parametrize("env", ["", "textcraft"])
    def test_asks_for_an_environment_of_the_paper(self, env: str) -> None:
        with pytest.raises(LdmError, match="alfworld and webshop") as refused:
            stage_preset("ldm2", env, "build")
        assert "--env" in refused.value.remedy

    def test_refuses_a_table_without_a_memory(self) -> None:
        with pytest.raises(LdmError, match="does not say how a memory is made"):
            build_settings("react", "")


class TestRefining:
    def test_is_as_published(self) -> None:
        published = RefinementPreset.named("ldm2", "alfworld")
        spec = published.spec(RefinementSpec())
        assert (spec.env, spec.split, published.settings.tasks) == ("alfworld", "train", 60)
        assert spec.refine_options() == RefineOptions(
            decision="per-batch", explorer="tree", width=4
        )
        assert dict(spec.env_options)["admissible"] == "False"
        assert spec.gate().gate == "off"
        assert dict(spec.policy_options)["histories"] == "paper"

    def test_takes_what_is_asked_for_instead(self) -> None:
        request = RefinementSpec(
            env="webshop",
            split="demo_train",
            options=settings(width=2),
            policy_options=settings(k=7),
        )
        spec = RefinementPreset.named("ldm2", "webshop").spec(request)
        assert spec.split == "demo_train"
        assert spec.refine_options().width == 2
        assert dict(spec.policy_options) == {**dict(spec.policy_options), "k": "7", "index": "llm"}


def test_the_rows_decide_as_the_refinement_does() -> None:
    for one in list_presets("ldm2"):
        assert one.content.refine is not None
        decisions = one.content.refine.policy_options
        names = {field for field in PolicyOptions.__slots__ if field in decisions}
        for row in one.content.rows:
            if row.agent == "ldm":
                assert {k: v for k, v in row.agent_options.items() if k in names} == decisions

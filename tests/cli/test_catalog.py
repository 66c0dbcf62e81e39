"""`ldm agents` and `ldm envs` list what there is and hide nothing that is broken."""

from __future__ import annotations

import json

import pytest

from ldm import agents, envs
from tests.cli.conftest import Run


def test_agents_are_listed_with_their_origin_and_defaults(run: Run) -> None:
    outcome = run("agents", "--json")
    assert outcome.code == 0
    entries = json.loads(outcome.out)
    assert set(agents.AGENTS) <= set(entries)
    assert entries["random"]["paper"] == "baseline"
    assert entries["random"]["options"] == {"budget": 50}
    assert all("unusable" not in entry for entry in entries.values())


def test_what_an_agent_needs_and_takes_from_its_paper_is_said(run: Run) -> None:
    entries = json.loads(run("agents", "--json").out)
    for name in ("standard", "react", "reflexion", "try_again", "plan_hint"):
        assert entries[name]["needs"] == ["llm"]
        assert "arXiv" in entries[name]["paper"]
        assert entries[name]["published budget"]["webshop"] == 45
        assert entries[name]["options"]["shots"] == 2
    assert [n for n in entries if entries[n]["sees_reward"]] == ["reflexion", "try_again"]
    assert entries["reflexion"]["published trials"]["alfworld"] == 5
    assert "  published trials: alfworld=3, textcraft=4, webshop=3\n" in run("agents").out


def test_environments_are_listed_with_their_defaults(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(envs.ENVS, "toy", "tests.toy:ToyEnv")
    entries = json.loads(run("envs", "--json").out)
    assert entries["toy"]["default_split"] == "test"
    assert entries["toy"]["options"]["shelves"] == 3
    assert set(envs.ENVS) <= set(entries)
    assert all("unusable" not in entry for entry in entries.values())
    assert entries["textcraft"]["default_split"] == "test"
    assert entries["textcraft"]["options"] == {"tasks": None}


def test_the_list_reads_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envs, "ENVS", {"toy": "tests.toy:ToyEnv"})
    out = run("envs").out
    assert out.startswith("toy")
    assert "  default split: test\n" in out
    assert "  options: tasks=12, shelves=3, delay=0.0, broken=, dialect=plain\n" in out


def test_one_that_cannot_be_loaded_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agents.AGENTS, "absent", "tests.absent:Agent")
    monkeypatch.setitem(agents.AGENTS, "odd", "tests.toy:EchoEnv")
    outcome = run("agents")
    assert outcome.code == 0
    assert "absent\n  unusable: The agent 'absent'" in outcome.out
    assert "odd\n  unusable: " in outcome.out
    assert "random" in outcome.out

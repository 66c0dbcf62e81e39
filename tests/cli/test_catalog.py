"""`ldm agents` and `ldm envs` list what there is and hide nothing that is broken."""

import json

import pytest

from ldm import agents
from tests.cli.conftest import run
from tests.conftest import announce


def test_agents_are_listed_with_their_origin_and_defaults() -> None:
    outcome = run("agents", "--json").done()
    entries = json.loads(outcome.out)
    assert set(agents.AGENTS) <= set(entries)
    assert entries["random"]["paper"] == "baseline"
    assert entries["random"]["options"] == {"budget": 50}
    assert all("unusable" not in entry for entry in entries.values())


def test_what_an_agent_needs_and_takes_from_its_paper_is_said() -> None:
    entries = json.loads(run("agents", "--json").out)
    for name in ("act", "react", "reflexion", "try_again"):
        assert entries[name]["needs"] == ["llm"]
        assert "arXiv" in entries[name]["paper"]
        steps = 15 if name == "try_again" else 45
        assert entries[name]["budget by environment"]["webshop"] == steps
        assert entries[name]["options"]["shots"] == 2
    assert [n for n in entries if entries[n]["sees_reward"]] == ["lats", "reflexion", "try_again"]
    assert entries["reflexion"]["trials by environment"]["alfworld"] == 5
    assert "  trials by environment: alfworld=3, textcraft=4, webshop=3\n" in run("agents").out
    for name in ("adapt", "plan_execute"):
        assert entries[name]["strength by environment"]["webshop"] == "skills"
        assert entries[name]["strength by environment"]["alfworld"] == "hybrid"
        assert entries[name]["executor_steps by environment"]["webshop"] == 15
        assert "budget by environment" not in entries[name]
    assert entries["standard"]["class"] == entries["act"]["class"]


@pytest.mark.parametrize("command", ["agents", "envs"])
def test_every_option_has_a_short_description(command: str) -> None:
    for name, entry in json.loads(run(command, "--json").out).items():
        assert list(entry["options"]) == list(entry["descriptions"]), name
        for text in entry["descriptions"].values():
            assert 0 < len(text) <= 70, (name, text)
            assert not text.endswith("."), (name, text)


def test_environments_are_listed_with_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, "ldm.envs", toy="tests.toy:ToyEnv")
    entries = json.loads(run("envs", "--json").out)
    assert entries["toy"]["default_split"] == "test"
    assert entries["toy"]["options"]["shelves"] == 3
    assert {"alfworld", "hotpotqa", "minecraft", "tabletop", "webshop"} <= set(entries)
    assert all("unusable" not in entry for entry in entries.values())
    assert entries["textcraft"]["default_split"] == "test"
    assert entries["textcraft"]["options"] == {"tasks": None}


def test_one_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agents.AGENTS, "absent", "tests.absent:Agent")
    monkeypatch.setitem(agents.AGENTS, "odd", "tests.toy:EchoEnv")
    run("agents").done("absent\n  unusable: The agent 'absent'", "odd\n  unusable: ", "random")

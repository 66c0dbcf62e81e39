"""With --json every command prints one JSON object on one line, and nothing else."""

import json
from pathlib import Path

import pytest

from ldm import records
from ldm.cli.app import every_command
from tests.cli.conftest import run
from tests.toy import expert_trajectories

TOY = ("--env", "tests.toy:ToyEnv", "--workers", "1")
QUERY = ("put the fig in the basket", "You hold the fig.")
#: A cheap call of each command that has --json, in an order in which they can follow each other.
#: {run} stands for a finished evaluation, {tuple} and {trajectory} for what the memory holds.
CALLS: dict[str, tuple[str, ...]] = {
    "build-memory": ("data",),
    "import": ("data/train.jsonl", "--out", "out.jsonl"),
    "memory show": (),
    "memory search": QUERY,
    "memory verify": (),
    "memory publish": (),
    "eval": (*TOY, "--limit", "1", "--without-tuples", "{tuple}"),
    "memory forget": ("--trajectories", "{trajectory}"),
    "compare": ("{run}", "{run}", "--trust"),
    "runs list": (),
    "runs show": ("{run}",),
    "memory fold": (),
    "memory rules": (),
    "refine": (*TOY, "--limit", "1", "--reuse-goals", "--dry-run"),
    "agents": ("random",),
    "envs": ("textcraft",),
    "validate": ("data/train.jsonl",),
    "doctor": (),
    "presets": ("adapt-table2",),
    "data": ("textcraft",),
}
#: Those that need a model server, data or minutes; the tests of each read its object.
ELSEWHERE = {"autoplan"}


def commands() -> set[str]:
    """Return the names of all commands that have --json."""
    return {
        words
        for words, command in every_command()
        if any("--json" in parameter.opts for parameter in command.params)
    }


def test_every_command_is_asked_here_or_elsewhere() -> None:
    assert commands() == set(CALLS) | ELSEWHERE


@pytest.mark.slow
def test_each_prints_one_object(place: Path) -> None:
    records.write(place / "data" / "train.jsonl", expert_trajectories())
    names: dict[str, str] = {}
    for command, arguments in CALLS.items():
        outcome = run(*command.split(), *(names.get(word, word) for word in arguments), "--json")
        lines = outcome.out.splitlines()
        assert len(lines) == 1, (command, outcome)
        answer = json.loads(lines[0])
        assert isinstance(answer, dict), command
        if command == "eval":
            names["{run}"] = answer["run"]
        if command == "memory search":
            first = answer["recalls"][0]
            names |= {"{tuple}": first["id"], "{trajectory}": first["tuple"]["trajectory_id"]}

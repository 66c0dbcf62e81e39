"""A bad run.json is named and breaks nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records
from ldm.llm import Message, Sampling
from ldm.llm.calls import Call, Request
from ldm.runs import Manifest, create, list_runs
from ldm.types import Usage
from tests.cli.conftest import Run, run

__all__ = ["run"]

GOOD = Manifest("eval", {"env": "toy", "agent": "random"}, {"split": "test"})
BAD = {
    "not JSON": b"{",
    "not UTF-8": b'{"id": "\xff"}',
    "deep": b'{"arguments": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "digits": b'{"schema_version": ' + b"9" * 5000 + b"}",
    "later": b'{"schema_version": 99}',
    "version in words": b'{"schema_version": "1"}',
    "a list": b"[1]",
    "empty": b"",
    "a surrogate": b'{"id": "\\ud800"}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_one_is_named_and_the_others_are_listed(
    run: Run, tmp_path: Path, content: bytes
) -> None:
    good = create(tmp_path, ["good"], GOOD)
    bad = tmp_path / "bad" / "run.json"
    bad.parent.mkdir()
    bad.write_bytes(content)
    assert [one.manifest.id for one in list_runs(tmp_path)] == [good.manifest.id]
    outcome = run("runs", "list", "--runs", tmp_path)
    assert (outcome.code, good.manifest.id in outcome.out) == (0, True)
    assert f"Skipping: {bad}" in outcome.err
    listed = json.loads(run("runs", "list", "--runs", tmp_path, "--json").out)["runs"]
    assert [one["id"] for one in listed] == [good.manifest.id]


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        ({}, {}),
        ({"agent": 3}, {}),
        ({"env": "alfworld", "env_options": 3}, {}),
        ({"env": "alfworld"}, {"companion": 5, "models": 7}),
        ({"env": "alfworld"}, {"models": {"llm": ["a"]}}),
    ],
)
@pytest.mark.parametrize(
    "command", ["eval --resume RUN", "compare RUN RUN", "runs tree RUN", "memory credit RUN"]
)
def test_arguments_that_are_none_are_an_error_of_that_run(
    run: Run,
    tmp_path: Path,
    spec: dict[str, object],
    arguments: dict[str, object],
    command: str,
) -> None:
    made = create(tmp_path, ["odd"], replace(GOOD, spec=spec, arguments=arguments))
    (made.directory / "episodes.jsonl").write_text("")
    outcome = run(*command.replace("RUN", str(made.directory)).split())
    assert outcome.code in (0, 1)
    assert "Error inside ldm" not in outcome.err, outcome.err


@pytest.mark.parametrize("bad", [b"{", b"\xff", b"[" * 3000, b'{"key": 1}', b'{"key": "\\ud800"}'])
def test_a_bad_line_of_a_recording_is_named_and_the_other_calls_are_counted(
    run: Run, tmp_path: Path, bad: bytes
) -> None:
    request = Request("m", (Message("user", "hello"),), sampling=Sampling(), max_tokens=5)
    call = Call(request.key, "llm", request, "word", "stop", Usage(1, 2, 0, 3))
    line = records.dumps(call).encode() + b"\n"
    file = tmp_path / "llm.jsonl"
    file.write_bytes(line + bad + b"\n" + line + line[:50])
    outcome = run("llm", "usage", file, "--json")
    (account,) = json.loads(outcome.out)["accounts"]
    assert (outcome.code, account["usage"]["calls"]) == (0, 2)
    assert f"{file}:2:" in outcome.err
    assert "invalid line" in outcome.err

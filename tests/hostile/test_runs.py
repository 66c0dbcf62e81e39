"""A bad run.json or recording is named and breaks nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.runs import Manifest, create
from tests.cli.conftest import run

GOOD = Manifest("eval", {"env": "toy", "agent": "random", "split": "test"}, {"split": "test"})
BAD = {
    "not JSON": b"{",
    "not UTF-8": b'{"id": "\xff"}',
    "deep": b'{"arguments": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "later": b'{"schema_version": 99}',
    "a list": b"[1]",
    "empty": b"",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_one_is_named_and_the_others_are_listed(tmp_path: Path, content: bytes) -> None:
    good = create(tmp_path, ["good"], GOOD)
    bad = tmp_path / "bad" / "run.json"
    bad.parent.mkdir()
    bad.write_bytes(content)
    outcome = run("runs", "list", "--runs", tmp_path, "--json")
    assert [one["id"] for one in json.loads(outcome.out)["runs"]] == [good.manifest.id]
    assert f"Skipping: {bad}" in outcome.err


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"env": 3},
        {"env": {"name": ["alfworld"], "data": {"a": 1}}, "agent": 3},
        {"env": "alfworld", "split": ["test"], "kinds": "heat", "limit": "many"},
        {"env": "alfworld", "agent": "random", "split": "test", "models": {"llm": ["a"]}},
    ],
)
@pytest.mark.parametrize(
    "command", ["eval --resume RUN", "compare RUN RUN", "runs show RUN", "runs show RUN --tree"]
)
def test_a_bad_spec_is_an_error_of_that_run(
    tmp_path: Path, spec: dict[str, object], command: str
) -> None:
    made = create(tmp_path, ["odd"], replace(GOOD, spec=spec, arguments={"companion": 5}))
    (made.directory / "episodes.jsonl").write_text("")
    outcome = run(*command.replace("RUN", str(made.directory)).split())
    assert outcome.code in (0, 1)
    assert "Error inside ldm" not in outcome.err, outcome.err

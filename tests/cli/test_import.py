"""`ldm import` and other formats: options, what is said, and that nothing is half-written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records
from ldm.types import Trajectory
from tests.cli.conftest import run
from tests.interchange.test_webshop_episodes import BUY, episode
from tests.interchange.test_webshop_sessions import SHIPPED


def episodes(folder: Path) -> Path:
    lines = [episode(*BUY, episode=i, reward=reward) for i, reward in enumerate((1.0, 0.5, 0.0))]
    path = folder / "agent.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{torn\n")
    return path


def test_a_least_reward_leaves_others_out_and_says_so(tmp_path: Path) -> None:
    assert (
        "agent.jsonl:4: not JSON"
        in run("import", episodes(tmp_path), "--min-reward", 0.5, "--out", tmp_path / "out.jsonl")
        .done("1 skipped: reward below 0.5")
        .err
    )
    assert [t.score for t in records.read(tmp_path / "out.jsonl", Trajectory)] == [1.0, 0.5]


def test_a_limit_takes_an_even_share_of_the_kinds_whatever_the_order(tmp_path: Path) -> None:
    kinds = ["heat"] * 6 + ["cool"] * 3
    shipped = records.read(SHIPPED, Trajectory)[: len(kinds)]
    relabelled = [
        replace(t, task=replace(t.task, kind=k)) for t, k in zip(shipped, kinds, strict=True)
    ]
    trajectories = []
    for name, order in (("a", relabelled), ("b", relabelled[::-1])):
        path = tmp_path / f"{name}.jsonl"
        records.write(path, order)
        assert (
            "5 skipped: --limit 4"
            in run("import", path, "--limit", 4, "--out", tmp_path / f"{name}.out.jsonl").out
        )
        trajectories.append(records.read(tmp_path / f"{name}.out.jsonl", Trajectory))
    assert sorted(t.task.kind for t in trajectories[0]) == ["cool", "cool", "heat", "heat"]
    assert trajectories[1] == trajectories[0][::-1]


@pytest.mark.parametrize(("out", "options"), [("x.jsonl", ()), ("x.jsonl.gz", ("--to", "chat"))])
def test_what_a_run_has_recorded_leaves_and_enters_again(
    out: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    recorded = tmp_path / "trajectories.jsonl"
    records.write(recorded, records.read(SHIPPED, Trajectory))
    run("import", recorded, "--out", tmp_path / out, *options).done(
        f"100 trajectories → {tmp_path / out}"
    )
    assert run("import", tmp_path / out, "--out", tmp_path / "back.jsonl").code == 0
    assert (tmp_path / "back.jsonl").read_bytes() == recorded.read_bytes()


def test_the_options_say_what_recordings_of_others_do_not(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Heat it."}, {"role": "assistant", "content": "heat"}]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": messages}))
    out = tmp_path / "out.jsonl"
    refused = run("import", tmp_path / "chat.jsonl", "--out", out)
    assert (refused.code, out.exists()) == (1, False)
    assert "chat.jsonl:1:env: the messages name no environment" in refused.err
    of_the_task = ("--env", "kitchen", "--kind", "heat", "--split", "a")
    options = (*of_the_task, "--origin", "human", "--score", 1)
    assert run("import", tmp_path / "chat.jsonl", *options, "--out", out).code == 0
    (read,) = records.read(out, Trajectory)
    assert (read.task.env, read.task.kind, read.task.split) == ("kitchen", "heat", "a")
    assert (read.origin, read.score, read.success) == ("human", 1.0, True)


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.json"])
def test_a_file_that_fits_no_format_says_what_was_looked_for_and_shows_ours(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"said": "hello"}\n')
    done = run("import", tmp_path / name, "--out", tmp_path / "out.jsonl").refused(
        f"{name}: no trajectories; skipped", '"messages" with', "webshop-sessions"
    )
    assert not (tmp_path / "out.jsonl").exists()
    (example,) = (line for line in done.err.splitlines() if line.startswith('  {"task"'))
    (tmp_path / "ours.jsonl").write_text(example.strip() + "\n")
    again = run("import", tmp_path / "ours.jsonl", "--out", tmp_path / "out.jsonl")
    assert (again.code, again.err) == (0, "")
    assert "1 trajectory" in again.out

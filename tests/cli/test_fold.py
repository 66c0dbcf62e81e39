"""`ldm memory fold` makes a generation of what an agent added one by one."""

from __future__ import annotations

import json
from pathlib import Path

import ldm
from ldm.memory import generations
from tests.cli.conftest import Run


def test_what_is_in_no_generation_becomes_one(run: Run, place: Path) -> None:
    memory = ldm.Memory.open("mine", "desk", create=True)
    for score in (1, 0):
        with memory.record("answer the letter") as episode:
            episode.step("A letter lies there.", f"answer {score}")
            episode.finish(score)
    refused = run("memory", "show", "--memory", "mine")
    assert refused.code == 1
    assert "Make one with `ldm memory fold`" in " ".join(refused.err.split())
    folded = run("memory", "fold", "--memory", "mine")
    assert (folded.code, folded.out) == (0, "desk: 2 trajectories → generation 0.\n")
    (made,) = generations("mine", "desk")
    assert made.tuples == 2
    again = run("memory", "fold", "--memory", "mine")
    assert again.out == "Everything in mine is in a generation already.\n"
    assert json.loads(run("memory", "fold", "--memory", "mine", "--json").out) == {}


def test_there_is_nothing_to_fold_where_there_is_no_memory(run: Run, place: Path) -> None:
    outcome = run("memory", "fold", "--memory", "nowhere")
    assert outcome.code == 1
    assert "There is no memory at nowhere." in outcome.err
    assert not (place / "nowhere").exists()

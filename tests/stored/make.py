"""A directory with a memory and runs, kept so that later versions can show that they read it.

    python -m tests.stored.make tests/stored/v0_1

makes one with the version at hand: `place.tar.gz` holds a memory with two generations, a finished
refinement, a finished comparison of both generations, and an evaluation and a refinement that were
interrupted; `expected.json` holds what the commands of `QUESTIONS` answer there. Never make a
stored directory anew: what it is worth is that an earlier version made it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from tests.cli.transcript import run_command, timeless
from tests.embedder import BagOfWords
from tests.toy import ToyEnv, ToyOptions, expert_trajectories

ARCHIVE = "place.tar.gz"
#: Changed since where later versions mean to do otherwise: `runs tree` counts as nodes what was
#: tried, and a refinement that improves nothing makes no generation.
EXPECTED = "expected.json"
#: Stands in the stored files for the directory that they lie in, which has to be a full path.
PLACE = "@PLACE@"
TOY = ("--env", "tests.toy:ToyEnv", "--workers", "1")
EVAL = ("eval", *TOY, "--env.shelves", "5", "--agent.budget", "12", "--limit", "4")
REFINE = ("refine", *TOY, "--env.shelves", "8", "--depth", "12")
#: The folders of runs by what they hold, so that each has one name in every version.
REFINED, COMPARED, STOPPED, STOPPED_REFINEMENT = "refined", "compared", "stopped", "stopped_refine"
#: What is asked of a stored directory, in this order; {run} stands for the run in a folder.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "generations": ("memory", "log", "--json"),
    "types": ("memory", "types", "--json"),
    "added": ("memory", "diff", "0", "1", "--json"),
    "evaluated": (*EVAL, "--generation", "0,1", "--json"),
    "evaluated again": ("eval", "--resume", "{compared}", "--json"),
    "compared": ("compare", "{compared}", "{compared with}", "--json"),
    "trees": ("runs", "tree", "{refined}"),
    "resumed": ("eval", "--resume", "{stopped}", "--workers", "1", "--json"),
    "refined": ("refine", "--resume", "{stopped_refine}", "--workers", "1", "--json"),
    "generations afterwards": ("memory", "log", "--json"),
}
#: Python knows filters from 3.11.4 on; what is unpacked here is our own either way.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def prepare(patch: pytest.MonkeyPatch, place: Path) -> None:
    """Work in `place` with an embedder that takes no time to load."""
    patch.chdir(place)
    patch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords(name or "bag-of-words"))


def answers(place: Path) -> dict[str, Any]:
    """What the commands of `QUESTIONS` answer in the working directory, without times and ids."""
    runs = {f"{{{folder.name}}}": sorted(folder.iterdir()) for folder in place.glob("runs/*")}
    names = {name: str(runs_of_name[0]) for name, runs_of_name in runs.items()}
    names["{compared with}"] = str(runs["{compared}"][1])
    given = {}
    for question, words in QUESTIONS.items():
        outcome = run_command(*(names.get(word, word) for word in words))
        assert outcome.code == 0, f"{question}: {outcome.err}"
        text = re.sub(r"[\w./-]*-\d{8}-\d{6}-[0-9a-f]{4}", "RUN", outcome.out)
        given[question] = (
            timeless(_listed(json.loads(text), question))
            if "--json" in words
            else text.splitlines()
        )
    return given


def _listed(answer: Any, question: str) -> Any:
    """Return an answer as commands gave it before all of them gave one object."""
    match question:
        case "generations" | "generations afterwards":
            return answer["generations"]
        case "types":
            return [
                {k: v for k, v in one.items() if k != "typical_goal"} for one in answer["types"]
            ]
        case "added":
            return [*answer["added"], *answer["removed"]]
    return answer


def unpack(stored: Path, place: Path) -> None:
    """Unpack a stored directory into `place`."""
    with tarfile.open(stored / ARCHIVE) as archive:
        archive.extractall(place, **SAFELY)
    _replace(place, PLACE, str(place))


def make(stored: Path) -> None:
    """Make a stored directory with the version at hand."""
    stored.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        place, copy = Path(folder) / "place", Path(folder) / "copy"
        place.mkdir()
        prepare(patch, place)
        _fill(patch, place)
        shutil.rmtree(place / "data")
        _replace(place, str(place), PLACE)
        with tarfile.open(stored / ARCHIVE, "w:gz") as archive:
            archive.add(place, ".")
        copy.mkdir()
        unpack(stored, copy)
        patch.chdir(copy)
        text = json.dumps(answers(copy), indent=1, ensure_ascii=False)
    (stored / EXPECTED).write_text(text + "\n", encoding="utf-8")


def _fill(patch: pytest.MonkeyPatch, place: Path) -> None:
    known = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    records.write(place / "data" / "train.jsonl", known)
    _do("build-memory", "data")
    _do(*REFINE, "--tasks", "4", "--runs", f"runs/{REFINED}")
    _do(*EVAL, "--generation", "0,1", "--runs", f"runs/{COMPARED}")
    reset, begun = ToyEnv.reset, list[str]()

    def interrupted(self: ToyEnv, task: Any) -> Any:
        begun.append(task.id)
        if len(set(begun)) > 2:
            raise KeyboardInterrupt
        return reset(self, task)

    patch.setattr(ToyEnv, "reset", interrupted)
    _do(*EVAL, "--seed", "1", "--runs", f"runs/{STOPPED}", code=130)
    begun.clear()
    _do(*REFINE, "--tasks", "4", "--runs", f"runs/{STOPPED_REFINEMENT}", code=130)
    patch.setattr(ToyEnv, "reset", reset)


def _do(*words: str, code: int = 0) -> None:
    outcome = run_command(*words)
    assert outcome.code == code, outcome.err


def _replace(place: Path, old: str, new: str) -> None:
    for path in place.glob("runs/*/*/run.json"):
        path.write_text(path.read_text("utf-8").replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())

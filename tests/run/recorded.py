"""What runs and memories hold, without what differs from one time or place to the next."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ldm
from ldm.config import Evaluate, Refine
from ldm.memory import environments, generations, packs
from ldm.run.runtime import Runtime
from ldm.types import Task, TimeStep
from tests.toy import ToyEnv

RUN_ID = re.compile(r"[\w.=-]+-\d{8}-\d{6}-[0-9a-f]{4}\b")
#: Fields that say when something happened, how long it took, or with which code.
VARIABLE = re.compile(
    r'"(?:seconds|latency)": ?[\d.e-]+|"(?:seconds|code)": ?\{[^}]*\}'
    r'|"(?:started|created)": ?"[^"]*"'
)

TOY = "tests.toy:ToyEnv"
#: The shed in which the remembered episodes took place, and one that is searched faster.
SHED = {"tasks": 10, "shelves": 8}
SMALLER = {"tasks": 10, "shelves": 5}
REFINEMENT = Refine({"name": TOY, **SHED}, search={"depth": 12})
EVALUATION = Evaluate({"name": TOY, **SMALLER}, limit=4, agent={"name": "ldm", "budget": 12})


def files(folder: Path, place: Path) -> list[tuple[str, str]]:
    """Return (name, text) of every file below a folder of runs, comparable and sorted.

    place: the directory in which everything happened, which run.json names.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(
        (
            RUN_ID.sub(_subject, str(path.relative_to(folder))),
            comparable(path.read_text("utf-8"), place),
        )
        for path in paths
    )


def comparable(text: str, place: Path) -> str:
    """Return a text without run ids, times, the version of the code and the name of the place."""
    text = VARIABLE.sub("<…>", text.replace(str(place), "<place>"))
    text = re.sub(r'"digest", ?"\w+"', '"digest", "<…>"', text)  # of plans, which hold times
    text = re.sub(r"process \d+", "process <…>", text)  # in lock files
    return RUN_ID.sub(_subject, text)


def memory(place: Path) -> dict[str, tuple[list[str], str]]:
    """Return environment → (digests of its generations, export) of the memory below `place`."""
    location = str(place / ".ldm" / "memory")
    contents = {}
    for env in environments(location):
        file = place / f"{env}.jsonl"
        packs.export(location, env, file)
        digests = [generation.digest for generation in generations(location, env)]
        contents[env] = digests, comparable(file.read_text("utf-8"), place)
    return contents


def only_run(subject: str = "", folder: Path = Path("runs")) -> Path:
    """Return the only run whose id begins with `subject`."""
    (directory,) = folder.glob(f"{subject}*")
    return directory


def manifest(directory: Path) -> dict[str, Any]:
    """Return the content of a run's run.json."""
    content: dict[str, Any] = json.loads((directory / "run.json").read_text("utf-8"))
    return content


def resume(
    directory: Path, models: dict[str, Any] | None = None, runtime: Runtime | None = None
) -> Any:
    """Go on with any recorded experiment, one task at a time."""
    return ldm.resume(directory, models=models, runtime=runtime or Runtime(workers=1))


def interrupt_at(patch: pytest.MonkeyPatch, task_id: str) -> None:
    """Let the toy environment be interrupted, as by Ctrl-C, when this task begins."""
    reset = ToyEnv.reset

    def interrupted(self: ToyEnv, task: Task) -> TimeStep:
        if task.id == task_id:
            raise KeyboardInterrupt
        return reset(self, task)

    patch.setattr(ToyEnv, "reset", interrupted)


def _subject(run_id: re.Match[str]) -> str:
    """Return a run's id without date, time and number."""
    return f"<run {run_id[0].rsplit('-', 3)[0]}>"

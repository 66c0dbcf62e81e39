"""No command touches anything outside a folder that a stranger has made, or waits in it."""

import ast
import json
import os
import random
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ldm
from ldm import records
from ldm.llm.client import RetryPolicy
from ldm.types import stable_hash
from tests.cli.conftest import run
from tests.embedder import BagOfWords
from tests.hostile.small import small_memory
from tests.toy import expert_trajectories

#: Names that no memory or run need hold, and that some command might open, write or remove.
ABSENT = (".lock", "lock", "llm.jsonl", "snapshots", "chroma", "parts", "calls", ".x.tmp")
ASKING = (
    "eval --env tests.toy:ToyEnv --agent tests.integration.agents:Asking --llm m --workers 1"
    " --runs RUNS"
)
OF_MEMORY = (
    "memory show",
    "memory show --env toy",
    "memory search --env toy 'put the fig in the basket' 'You hold the fig.'",
    "memory rules --env toy",
    "memory verify",
    "memory export OUT",
    "memory fold",
    "memory forget --origin expert --env toy",
    "memory rollback --env toy --yes 1",
    "memory publish",
    "memory forget --origin expert --env toy --purge",
    "build-memory DATA",
    "build-memory DATA --rebuild",
    "memory import PACK",
    "memory export OUT --skills SKILLS --env toy",
    "doctor",
    "refine --env tests.toy:ToyEnv --runs RUNS --workers 1 --limit 1",
    "eval --env tests.toy:ToyEnv --agent ldm --runs RUNS --workers 1",
)
OF_RUN = (
    "runs list --runs PARENT",
    "runs show FOLDER",
    "compare FOLDER FOLDER",
    "report FOLDER --out OUT",
    "validate FOLDER/episodes.jsonl",
    "eval --resume FOLDER --trust --workers 1",
    f"{ASKING} --replay FOLDER",
    f"{ASKING} --models.cache FOLDER",
    "llm ask question --llm m --record FOLDER",
)


def to_decoy(path: Path, decoy: Path) -> None:
    path.symlink_to(decoy / "precious.jsonl")


def to_decoys(path: Path, decoy: Path) -> None:
    path.symlink_to(decoy)


def to_nothing(path: Path, decoy: Path) -> None:
    path.symlink_to(decoy / "new")


def to_zeros(path: Path, decoy: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, decoy: Path) -> None:
    os.mkfifo(path)


def huge(path: Path, decoy: Path) -> None:
    path.touch()
    os.truncate(path, 2**36)  # without content: it takes no room


def deep(path: Path, decoy: Path) -> None:
    path.joinpath(*["d"] * 200).mkdir(parents=True)


def nested(path: Path, decoy: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def elsewhere(path: Path, decoy: Path) -> None:
    """Name other places in what a JSON file says."""
    text = json.dumps({"id": "../../decoy", "memory": "http://127.0.0.1:9/", "name": str(decoy)})
    path.write_text(f"{text}\n")


LINKS = (to_decoy, to_decoys, to_nothing, to_zeros)
#: What some command once waited for, or followed, by the number of the folder.
FOUND = {0: (pipe, "chroma"), 2: (to_decoys, "chroma"), 4: (pipe, "calls")}
TRICKS: tuple[Callable[[Path, Path], None], ...] = (*LINKS, pipe, huge, deep, nested, elsewhere)


def state_of(place: Path) -> str:
    """Return the hash of a tree: names, modes, times of change and contents."""
    lines = []
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        content = path.read_bytes().hex() if path.is_file() else ""
        lines.append(f"{path} {status.st_mode} {status.st_mtime_ns} {content}")
    return stable_hash(lines, length=64)


def decoys(place: Path) -> Path:
    """Make a tree that looks like what commands remove and replace."""
    for name in ("precious.jsonl", "lock", "chroma/chroma.sqlite3", "gen-000009-1a2b3c4d/a.npy"):
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("precious, and without a newline")
    return place


def plant(folder: Path, decoy: Path, chance: random.Random, seed: int) -> str:
    """Play one trick in a folder; return which, and where."""
    held = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    drawn = chance.choice(TRICKS), chance.choice([*map(str, held), *ABSENT])
    trick, name = FOUND.get(seed, drawn)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    trick(path, decoy)
    return f"{trick.__name__} {name}"


def failure(
    patience: Callable[[], object], commands: tuple[str, ...], names: dict[str, Path], decoy: Path
) -> str:
    """Run the commands; return the first that crashed or touched the decoys, or ""."""
    before = state_of(decoy)
    for command in commands:
        words = command
        for name, path in names.items():
            words = words.replace(name, str(path))
        place = ["--memory", names["FOLDER"]] if commands is OF_MEMORY else []
        patience()
        outcome = run(*shlex.split(words), *place)
        if outcome.code not in (0, 1) or "Error inside ldm" in outcome.err:
            return f"{command}: {outcome.code} {outcome.err[-400:]}"
        if state_of(decoy) != before:
            return f"{command} touched what is outside"
    return ""


@pytest.mark.slow
def test_nothing_outside_a_hostile_folder_is_touched(
    patience: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords())
    monkeypatch.setattr(RetryPolicy, "wait", lambda *_: 0.0)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.chdir(tmp_path)
    memory, wrong = small_memory(tmp_path), []
    first = int(os.environ.get("LDM_SEED", "0"))
    number = int(os.environ.get("LDM_FOLDERS", "16"))
    playing = "eval --env tests.toy:ToyEnv --agent random --runs runs --workers 1"
    run(*playing.split()).done()
    (recorded,) = Path("runs").iterdir()
    data, pack = tmp_path / "data.jsonl", tmp_path / "toy.ldmpack"
    run("memory", "export", pack, "--memory", memory).done()
    records.write(data, expert_trajectories("test")[:2])
    for seed in range(first, first + number):
        chance, place = random.Random(seed), tmp_path / str(seed)
        commands, original = ((OF_MEMORY, memory), (OF_RUN, recorded))[seed % 2]
        folder = place / "in" / "one"
        shutil.copytree(original, folder)
        if commands is OF_RUN and chance.random() < 0.5:
            (folder / "episodes.jsonl").unlink()  # it can be resumed
        decoy = decoys(place / "decoy")
        trick = plant(folder, decoy, chance, seed)
        names = {"OUT": place / "out", "DATA": data, "PACK": pack}
        names |= {"RUNS": place / "new", "SKILLS": place / "skills"}
        names |= {"PARENT": folder.parent, "FOLDER": folder}
        if reason := failure(patience, commands, names, decoy):
            wrong.append(f"{seed} {trick}: {reason}")
        shutil.rmtree(place)
    assert not wrong, "\n".join(wrong)


#: Ways to open a file, and the modules whose files lie in memories and runs.
OPENS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "copyfile", "truncate"}
STORES = ("memory/*.py", "runs.py", "run/reading.py", "run/engine.py", "llm/calls.py")
#: What opens a pack, a file of a name that no other process has, or one that lies in a folder that
#: `check_own` has checked as a whole or that the user names.
ELSEWHERE = (
    "pack.open", "os.open(", "file.truncate", "(temporary / MANIFEST)", "GrowingMemory.open",
    "read_bytes(path)", "temporary.write_text", "path.read_text",
)  # fmt: skip


def test_files_in_memories_and_runs_are_opened_in_one_way() -> None:
    package = Path(ldm.__file__).parent
    for file in (file for pattern in STORES for file in package.glob(pattern)):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                call = ast.unparse(node)
                is_opening = ast.unparse(node.func).rpartition(".")[2] in OPENS
                is_new = call.endswith("open('xb')")
                assert not is_opening or is_new or call.startswith(ELSEWHERE), f"{file}: {call}"

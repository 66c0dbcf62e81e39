"""Snapshots hold what Chroma holds, and are made again where they do not."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ldm.memory.access import reading

from ldm.memory import Contents, Memory, generations, inspect, snapshot
from ldm.memory.kind_classifier import KindClassifier, trained
from tests.embedder import BagOfWords
from tests.memory.brute_force import brute_force

WORDS = st.lists(st.sampled_from(["put", "apple", "fig", "basket", "shelf", "sink", "hold"]))


@pytest.fixture(scope="module")
def in_chroma(toy_location: str) -> Contents:
    """What the database holds of the memory at `toy_location`."""
    with reading(toy_location) as store:
        return store.load("toy")


@given(goal=WORDS, observation=WORDS, k=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_recalls_are_those_of_brute_force_over_what_chroma_holds(
    memory: Memory, in_chroma: Contents, goal: list[str], observation: list[str], k: int
) -> None:
    query = " ".join(goal), " ".join(observation)
    kind = memory.kind_of(query[0])
    expected = brute_force(in_chroma, kind, BagOfWords().embed(query), k)
    recalls = memory.retrieve(*query, k)
    assert [(r.id, r.similarity, r.fallback) for r in recalls] == expected


@pytest.mark.parametrize(
    "name", [*snapshot.TABLES, snapshot.VECTORS, snapshot.KINDS, snapshot.MANIFEST]
)
@pytest.mark.parametrize("damage", ["removed", "torn", "changed"])
def test_a_damaged_one_is_made_again(name: str, damage: str, toy: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(toy, tmp_path / "copy")
    [path] = (copy / snapshot.SNAPSHOTS).glob(f"*/*/{name}")
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        half = len(content) // 2
        torn = content[:half]
        path.write_bytes(torn if damage == "torn" else torn + b"!" + content[half + 1 :])
    present = generations(str(toy), "toy")
    assert snapshot.read(str(copy), present) is None
    assert inspect(str(copy), "toy").rows == inspect(str(toy), "toy").rows
    assert snapshot.read(str(copy), present) is not None


def test_recalling_loads_neither_chroma_nor_scikit_learn(toy: Path) -> None:
    inspect(str(toy), "toy")
    code = (
        "import sys\nfrom ldm.memory import Memory, environments\n"
        "from tests.embedder import BagOfWords\n"
        "memory = Memory.open(sys.argv[1], 'toy', embedder=BagOfWords())\n"
        "print(environments(sys.argv[1]), len(memory.retrieve('put the fig', 'A shelf.')))\n"
        "assert not {'chromadb', 'sklearn'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(toy)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "('toy',) 5\n"


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        ("memory", "show", "--memory", "PLACE"),
        ("eval", "--env", "tests.toy:ToyEnv", "--agent", "ldm", "--limit", "1", "--workers", "1"),
    ],
)
def test_commands_that_read_load_no_chroma(
    command: tuple[str, ...], toy: Path, tmp_path: Path
) -> None:
    inspect(str(toy), "toy")
    code = (
        "import sys\nfrom ldm.cli.app import app\nimport ldm.embed\n"
        "from tests.embedder import BagOfWords\n"
        "ldm.embed.load_embedder = lambda name=None: BagOfWords(name or 'bag-of-words')\n"
        "sys.argv[1:] = [w.replace('PLACE', sys.argv[1]) for w in sys.argv[2:]]\n"
        "try:\n    app()\nexcept SystemExit as finished:\n    assert not finished.code\n"
        "assert 'chromadb' not in sys.modules"
    )
    further = ("--memory", "PLACE", "--runs", str(tmp_path)) if command[0] == "eval" else ()
    subprocess.run([sys.executable, "-c", code, str(toy), *command, *further], check=True)


def test_the_classifier_of_kinds_is_scikit_learns() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = ["put", "a", "clean", "hot", "cool", "two", "pen", "egg", "in", "fridge"]
    for kinds in (["clean", "heat"], ["clean", "heat", "cool"]):
        generator = random.Random(len(kinds))
        goals = [" ".join(generator.sample(words, 4)) for _ in range(60)]
        of_goals = [kinds[hash_of(goal) % len(kinds)] for goal in goals]
        counter = CountVectorizer(token_pattern=r"\w+", binary=True)
        regression = LogisticRegression(max_iter=1000, class_weight="balanced")
        model = make_pipeline(counter, regression)
        pairs = sorted({*zip(goals, of_goals, strict=True)})
        model.fit([goal for goal, _ in pairs], [kind for _, kind in pairs])
        classify = KindClassifier(trained(frozenset(zip(goals, of_goals, strict=True))))
        queries = [" ".join(generator.sample([*words, "unseen"], 3)) for _ in range(200)]
        assert [classify(goal) for goal in queries] == model.predict(queries).tolist()


def test_kinds_with_many_goals_do_not_draw_those_of_others_to_them() -> None:
    things, places = ("egg", "cup", "pan", "fork", "soap"), ("shelf", "desk", "sink", "bed")
    goals = {f"put some {thing} in {place}.": "pick" for thing in things for place in places}
    goals |= {f"put a hot {thing} in {place}.": "heat" for thing in things for place in places}
    goals |= {"put a clean spoon in drawer.": "clean", "clean some lid and put it in box.": "clean"}
    classify = KindClassifier(trained(frozenset(goals.items())))
    queries = [f"clean some {thing} and put it in {place}." for thing in things for place in places]
    assert {classify(goal) for goal in queries} == {"clean"}


def hash_of(goal: str) -> int:
    return len(goal) + goal.count("e")

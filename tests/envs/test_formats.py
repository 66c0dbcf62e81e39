"""Files of trajectories are found, and their formats told by their lines."""

from pathlib import Path

import pytest

from ldm import records
from ldm.envs import formats
from ldm.errors import LdmError
from ldm.records import Problem
from tests.toy import expert_trajectories


@pytest.fixture
def own(tmp_path: Path) -> Path:
    records.write(tmp_path / "own.jsonl", expert_trajectories())
    return tmp_path / "own.jsonl"


def test_files_below_folders_are_found_sorted_and_once(tmp_path: Path) -> None:
    for name in ("b/x.jsonl", "a/y.jsonl.gz", "a/z.json", ".git/h.jsonl", "a/.old/h.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    files = formats.files_below([tmp_path, tmp_path / "b", tmp_path / "b" / "x.jsonl"])
    assert files == [tmp_path / "a" / "y.jsonl.gz", tmp_path / "b" / "x.jsonl"]
    assert formats.files_below([tmp_path / ".git"]) == [tmp_path / ".git" / "h.jsonl"]  # named


@pytest.mark.parametrize(
    ("name", "message"), [("none", "does not exist"), ("a.txt", "not a trajectory file")]
)
def test_a_path_that_is_no_such_file_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(LdmError, match=message):
        formats.files_below([tmp_path / name])


def test_our_own_format_is_recognised_also_behind_a_bad_line(own: Path) -> None:
    assert formats.format_of(own) == formats.OWN
    own.write_text("\n{torn\n" + own.read_text())
    assert formats.format_of(own) == formats.OWN


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"game": "train/a/b", "conversations": []}', "alfworld-conversations"),
     ('{"word": "apple"}', None), ("[1, 2]", None), ("nonsense", None), ("", None)],
)  # fmt: skip
def test_a_format_is_told_by_the_first_line(text: str, name: str | None, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    assert formats.format_of(tmp_path / "x.jsonl") == name


def test_reading_gives_records_and_problems_in_their_order(own: Path) -> None:
    lines = own.read_text().splitlines()
    own.write_text("\n".join([lines[0], "nonsense", lines[1]]))
    first, bad, second = formats.read(own, formats.OWN)
    assert [first, second] == expert_trajectories()[:2]
    assert isinstance(bad, Problem)
    assert bad.line == 2


def test_a_line_that_is_no_object_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("[1]\nnonsense\n")
    problems = list(formats.read(tmp_path / "x.jsonl", "alfworld-conversations"))
    assert str(problems[0]).rpartition("/")[2] == "x.jsonl:1: Input should be an object"
    assert all(isinstance(p, Problem) for p in problems)


def test_an_unknown_format_is_refused_and_the_known_ones_named(own: Path) -> None:
    with pytest.raises(LdmError, match="no format 'csv'") as refused:
        list(formats.read(own, "csv"))
    assert "ldm, alfworld-conversations" in refused.value.remedy

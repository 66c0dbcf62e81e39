"""A cache that several runs fill at the same time."""

from dataclasses import asdict
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.llm import Message, Sampling
from ldm.llm.calls import Call, Recording, Request, read_calls
from ldm.types import Usage, stable_hash
from tests.llm.conftest import Connect, Serve


def call(text: str) -> Call:
    request = Request("m", (Message("user", text),))
    return Call(request.key, "llm", request, f"reply to {text}", "stop", Usage(1, 5, 0, 5))


def only_file(cache: Path) -> Path:
    (recording,) = cache.iterdir()
    return recording


class TestACacheThatOthersFill:
    def test_no_call_is_paid_twice(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server, cache = serve(), tmp_path / "cache"
        places = [tmp_path / name / "llm.jsonl" for name in ("first", "second")]
        first, second = (connect(server, recording=Recording(p, cache=cache)) for p in places)
        messages = [(Message("user", f"{number}"),) for number in range(6)]
        for number, words in enumerate(messages):
            (first, second)[number % 2].model("m").complete(words)
        for words in messages:
            assert first.model("m").complete(words).text == second.model("m").complete(words).text
        assert server.outcomes["answered"] == 1 + len(messages)  # one probe, and each call once
        paid = [sum(call.paid for call in read_calls(place.parent)) for place in places]
        assert sorted(paid) == [3, 4]

    def test_only_new_lines_are_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = Recording(cache=tmp_path)
        writer.add(call("1"))
        reader = Recording(cache=tmp_path)
        whole = only_file(tmp_path).read_bytes()
        # Were it read again from its start, what stands there now would be an error.
        only_file(tmp_path).write_bytes(b"x" * (len(whole) - 1) + b"\n")
        writer.add(call("2"))
        assert reader.find(call("1").key) is not None
        result = reader.find(call("2").key)
        assert result is not None
        assert result.text == "reply to 2"
        assert not result.paid

    def test_a_line_still_being_written_is_read_once_it_is_whole(self, tmp_path: Path) -> None:
        Recording(cache=tmp_path).add(call("1"))
        whole = only_file(tmp_path).read_bytes()
        only_file(tmp_path).write_bytes(whole[:40])
        reader = Recording(cache=tmp_path)
        assert reader.find(call("1").key) is None
        only_file(tmp_path).write_bytes(whole)
        assert reader.find(call("1").key) is not None

    def test_a_damaged_line_is_named(self, tmp_path: Path) -> None:
        writer = Recording(cache=tmp_path)
        writer.add(call("1"))
        reader = Recording(cache=tmp_path)
        with only_file(tmp_path).open("a") as file:
            file.write("\n{}\n")
        with pytest.raises(LdmError, match=r"\.jsonl:3:"):
            reader.find("other")

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LdmError, match=r"file.llm\.jsonl cannot be written"):
            Recording(tmp_path / "file" / "llm.jsonl").add(call("1"))
        with pytest.raises(LdmError, match="cannot be written"):
            Recording(cache=tmp_path / "file").add(call("1"))


def test_a_key_holds_every_field_of_a_request() -> None:
    request = Request(
        "m", (Message("user", "ü"),), {"type": "object"}, Sampling(0.5, 0.9, 1, 2), 3, ("x",)
    )
    assert request.key == stable_hash(asdict(request), length=32)


def test_each_server_is_probed(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    strong, weak = serve(), serve(structured=("json_object",))
    modes = []
    for server in (strong, weak, strong, weak):
        recording = Recording(cache=tmp_path / "cache")
        client = connect(server, recording=recording, directory=tmp_path)
        modes.append(client.capabilities("m").structured)
    assert modes == ["json_schema", "json_object"] * 2
    assert (strong.outcomes["answered"], weak.outcomes["answered"]) == (1, 1)

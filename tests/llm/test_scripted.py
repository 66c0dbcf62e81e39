"""The model that `ldm.testing` offers follows its script as a real one would reply."""

from dataclasses import dataclass

import pytest

from ldm.errors import ContextTooLong
from ldm.llm import Message, Sampling
from ldm.testing import ScriptedModel

ASK = [Message("user", "Where is the mug?")]


@dataclass(frozen=True)
class Place:
    name: str
    number: int


def test_it_replies_in_order_and_keeps_what_it_was_asked() -> None:
    model = ScriptedModel(
        ["one\nObservation: two", {"name": "sink", "number": 1}, "no"], then="end"
    )
    assert model.complete(ASK, stop=["\nObservation:"]).text == "one"
    assert model.complete(ASK, schema=Place, sampling=Sampling(0.5)).value == Place("sink", 1)
    assert model.complete(ASK, schema=Place).malformed
    assert [model.complete(ASK).text for _ in range(2)] == ["end", "end"]
    assert [sampling.temperature for _, sampling in model.requests] == [0, 0.5, 0, 0, 0]
    assert model.schemas == [None, Place, Place, None, None]


def test_it_fails_beyond_its_script_and_its_room() -> None:
    with pytest.raises(AssertionError, match="no further reply"):
        ScriptedModel([]).complete(ASK)
    with pytest.raises(ContextTooLong):
        ScriptedModel(lambda messages, sampling: "yes", room=5).complete(ASK)

"""The formaliser: what a model wants to do, in the environment's grammar."""

import pytest

from ldm.agents.replies import formalise, forms
from ldm.llm import Sampling
from ldm.types import Card
from ldm.worlds.alfworld.environment import CARD as ALFWORLD
from ldm.worlds.hotpotqa.environment import CARD as HOTPOTQA
from ldm.worlds.textcraft.environment import CARD as TEXTCRAFT
from ldm.worlds.webshop.environment import CARD as WEBSHOP
from tests.agents.scripted import Scripted, always
from tests.cases import cases


def formal(
    sentence: str, card: Card = ALFWORLD, reply: str = ""
) -> tuple[tuple[str, str], Scripted]:
    llm = always(reply)
    return formalise(sentence, card, "You see a desk 1 and a desk 11.", llm), llm


@pytest.mark.parametrize("card", [ALFWORLD, ALFWORLD.bare()])
@pytest.mark.parametrize(("sentence", "action"), cases(__file__, "most_actions_need_no_model"))
def test_most_actions_need_no_model(sentence: str, action: str, card: Card) -> None:
    formal_action, llm = formal(sentence, card)
    assert formal_action == (action, "form")
    assert llm.requests == []


@pytest.mark.parametrize("sentence", ["", " ."])
def test_nothing_is_no_action(sentence: str) -> None:
    assert formal(sentence)[0] == ("", "nothing")


@pytest.mark.parametrize(
    ("card", "sentence", "grammatical"),
    [
        (WEBSHOP, "search[red lamp, 20 inch]", True),
        (WEBSHOP, "click[Buy Now]", True),
        (WEBSHOP, "click[B078GWRC1J]", True),
        (WEBSHOP, "search[a] click[b]", False),
        (WEBSHOP, "buy it", False),
        (TEXTCRAFT, "craft 1 smoker using 4 logs, 1 furnace", True),
        (TEXTCRAFT, "craft 1 flint and steel using 1 flint, 1 iron ingot", True),
        (TEXTCRAFT, "craft 4 stick using 2 planks", True),
        (TEXTCRAFT, "get 4 logs", True),
        (TEXTCRAFT, "get logs", False),
        (ALFWORLD, "take laptop 1 from desk 2 and go to drawer 1", False),
        (ALFWORLD, "walk to the desk", False),
        (ALFWORLD, "inventory", True),
    ],
)
def test_the_grammar_of_a_card_is_known(card: Card, sentence: str, grammatical: bool) -> None:
    matches = any(form.fullmatch(sentence) for form in forms(card.actions))
    assert matches is grammatical


def test_names_in_brackets_may_be_any_words() -> None:
    card = HOTPOTQA.bare()
    for sentence in ("search[The Old Mill (novel)]", "Lookup[born in]", "finish[yes]"):
        assert formal(sentence, card)[0][1] == "form"


def test_the_model_is_asked_with_the_sampling_of_the_agents_replies() -> None:
    llm = always("go to desk 1")
    formalise("the desk, please", ALFWORLD, "", llm, Sampling(1.0, 0.9))
    assert llm.requests[0][1] == Sampling(1.0, 0.9)


@pytest.mark.parametrize(
    "reply",
    [
        "take the mug 1 from desk 1",
        "take mug 1 from desk 1",
        "Act: take mug 1 from desk 1",
        "Take mug 1 from desk 1.",
    ],
)
def test_the_rest_is_put_to_the_model(reply: str) -> None:
    formal_action, llm = formal("grab the mug off the desk", reply=reply)
    assert formal_action == ("take mug 1 from desk 1", "model")
    (prompt,) = llm.prompts
    assert "grab the mug off the desk" in prompt
    assert "desk 11" in prompt


def test_a_model_that_says_nothing_leaves_the_words_as_they_are() -> None:
    assert formal("grab the mug")[0] == ("grab the mug", "model")

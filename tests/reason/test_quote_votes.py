from __future__ import annotations

from dataclasses import replace

import pytest

from ldm.reason import State, quote_votes
from ldm.reason.offline import OfflineReasoner, _quotes
from ldm.reason.quote_votes import QuoteWeights
from ldm.types import History, Past, Recall, StateActionTuple
from tests.embedder import BagOfWords
from tests.reason.scripted import a_recall

FILM = "In which town was the director of the film {} born?"


def recalled(goal: str, past: Past, observation: str, action: str) -> StateActionTuple:
    return a_recall(goal, past, observation, action).tuple


def vote(present: tuple[str, Past, str], *tuples: StateActionTuple) -> list[tuple[str, float]]:
    precedents = [quote_votes.read_precedent(one, 1.0) for one in tuples]
    poll = quote_votes.poll(quote_votes.read(*present), precedents, QuoteWeights())
    return poll.ranked()


def best(present: tuple[str, Past, str], *tuples: StateActionTuple) -> str:
    return vote(present, *tuples)[0][0]


def test_an_argument_of_the_goal_is_quoted_from_the_present_goal() -> None:
    precedent = recalled(FILM.format("Iron Horizon"), (), "Question", "search[Iron Horizon]")
    action = best((FILM.format("The Last, Long Ferry"), (), "Question"), precedent)
    assert action == "search[The Last, Long Ferry]"


def test_an_argument_of_the_observation_is_quoted_from_the_present_one() -> None:
    film = recalled(
        FILM.format("Iron Horizon"),
        ((FILM.format("Iron Horizon"), "search[Iron Horizon]"),),
        "Iron Horizon is a film of 1951 directed by Ada Ray. It was shot in Zell within a year.",
        "search[Ada Ray]",
    )
    present = (
        FILM.format("Kites"),
        ((FILM.format("Kites"), "search[Kites]"),),
        "Kites is a film of 2004 directed by Bo van Lind. It won a prize.",
    )
    assert best(present, film) == "search[Bo van Lind]"


def test_numbers_around_a_quotation_are_all_alike() -> None:
    precedent = recalled(
        "When?", (), "Ada Ray (born 3 May 1911) is a singer.", "finish[1911]"
    )  # the day and the month are others, and nothing in front of the year is the same
    present = ("When?", (), "Bo Lind (born 12 June 1978) is an engineer.")
    assert best(present, precedent) == "finish[1978]"


def test_an_argument_that_stands_nowhere_stays_and_counts_where_it_came_again() -> None:
    yes = [recalled(f"Is {n} as {n}?", (), f"{n}.", "finish[yes]") for n in ("one", "two")]
    odd = recalled("Is three as three?", (), "three.", "finish[maybe]")
    ranked = dict(vote(("Is four as four?", (), "four."), *yes, odd))
    assert ranked["finish[yes]"] > 10 * ranked["finish[maybe]"]


def test_what_was_done_before_is_hardly_done_again() -> None:
    precedent = recalled("Find A now", (), "A is near.", "search[A]")
    again = ("Find B now", (("B is near.", "search[B]"),), "B is near.")
    fresh = ("Find B now", (("B is near.", "search[C]"),), "B is near.")
    assert vote(again, precedent)[0][1] == pytest.approx(vote(fresh, precedent)[0][1] * 0.1)


def test_no_quotation_goes_on_over_the_end_of_a_sentence() -> None:
    precedent = recalled("Who", (), "Made by Ada in Zell.", "search[Ada]")
    ranked = vote(("Who", (), "Nobody is made by hand. Bo lives there."), precedent)
    assert [action for action, _ in ranked] == ["search[hand]"]


def test_a_warning_votes_against() -> None:
    source = recalled(FILM.format("A"), (), "x", "search[A]")
    precedent = quote_votes.read_precedent(source, -1.0)
    poll = quote_votes.poll(
        quote_votes.read(FILM.format("B"), (), "x"), [precedent], QuoteWeights()
    )
    assert poll.ranked() == []
    assert poll.opposed() == {"search[B]"}


def test_the_offline_reasoner_quotes_where_no_action_is_listed_and_none_is_a_label() -> None:
    reasoner = OfflineReasoner(BagOfWords("bag-of-words"))
    source = recalled(FILM.format("Iron Horizon"), (), "Question", "search[Iron Horizon]")
    state = State(FILM.format("Kites"), History(), "Question")
    recalls = [Recall(source, 0.9, "batch", "goal", "observation")]
    answer = reasoner.act(state, recalls)
    assert answer.proposals[0].action == "search[Kites]"
    assert answer.followed == (0,)
    assert reasoner.followed(state, recalls, "search[Kites]") == (0,)


def test_what_is_entered_on_a_page_is_no_quotation_even_where_nothing_is_listed() -> None:
    """A start page has a label on a line of its own, and a search there names none."""
    page, prose = "A shop.\n[search]\nWrite what is wanted.", "Kites [1] is a film."
    state = State("i want a carpet that is blue", History(), page, None)

    def quoting(observation: str) -> bool:
        source = recalled("i want a lamp that is red", (), observation, "search[red lamp]")
        return _quotes(state, [Recall(source, 0.9, "batch", "goal", "observation")])

    assert not quoting(page)
    assert quoting(prose)
    assert not _quotes(replace(state, admissible=("search[a]",)), [])

"""Reading a state on from the one before, and what that must not change."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ldm.reason.entities import (
    Roles,
    Situation,
    pattern_of,
    phrases,
    read_command,
    read_situation,
    roles_of,
)
from ldm.types import Past
from tests.toy import expert_trajectories

EPISODES = expert_trajectories()


def states(number: int) -> list[tuple[str, Past, str]]:
    """The goal, past and observation of each state of an episode, the last one included."""
    episode = EPISODES[number]
    before = [(past, observation) for past, observation, _ in episode.states()]
    last_past, last_seen = before[-1]
    last = episode.steps[-1]
    before.append(((*last_past, (last_seen, last.action)), last.observation))
    return [(episode.task.goal, past, observation) for past, observation in before]


def seen_in(situation: Situation, roles: Roles) -> object:
    """All that a vote asks of a situation."""
    view = situation.view(roles)
    entities = sorted(situation.entities())
    parts = [view.part(entity) for entity in entities]
    texts = ["go to shelf 1", "put fig in basket", "wash the fig at sink"]
    return (
        entities,
        parts,
        view.progress,
        view.scene,
        situation.head_words,
        situation.done,
        situation.frames,
        situation.past,
        [situation.read(text) for text in texts],
        [situation.surface(entity) for entity in entities],
    )


def test_no_name_goes_on_behind_a_bracket() -> None:
    """What was crafted, "[white bed] (1)", is one bed and not a thing called bed 1."""
    answer = "Inventory: [white bed] (1) [oak planks] (3)"
    assert {("white", "bed"), ("oak", "planks")} <= phrases(answer)
    assert not {("bed", "1"), ("white", "bed", "1"), ("1", "oak")} & phrases(answer)
    assert pattern_of(("white", "bed")).search(answer)
    assert not pattern_of(("bed", "1")).search(answer)
    assert pattern_of(("bed", "1")).search("You are at the bed  1.")


@pytest.mark.parametrize("number", range(len(EPISODES)))
def test_a_state_read_on_is_the_same_as_one_read_from_the_start(number: int) -> None:
    roles = roles_of(("fig", "sink", "basket"))
    goal, _, opening = states(number)[0]
    on = Situation(goal, (), opening)
    for (_, _, _), (_, past, observation) in pairwise(states(number)):
        before = seen_in(on, roles)
        later = on.after(past[-1][1], observation)
        assert seen_in(later, roles) == seen_in(Situation(goal, past, observation), roles)
        assert seen_in(on, roles) == before  # it may be gone on from again
        on = later


def test_a_search_goes_on_from_a_state_in_several_ways() -> None:
    goal, past, observation = states(0)[1]
    roles = roles_of(("fig", "basket"))
    first = read_situation(goal, past, observation)
    assert read_situation(goal, past, observation) is first
    for action in ("go to shelf 2", "go to sink", "go to shelf 2"):
        further = (*past, (observation, action))
        read = read_situation(goal, further, "You are there.")
        expected = Situation(goal, further, "You are there.")
        assert seen_in(read, roles) == seen_in(expected, roles)


def test_a_command_is_read_by_what_is_known_then() -> None:
    both = "take red fig from shelf 1"
    little = read_command(both, {("fig",), ("shelf", "1")})
    more = read_command(both, {("red", "fig"), ("fig",), ("shelf", "1")})
    assert (little.frame, little.entities) == ("take red _ from _", (("fig",), ("shelf", "1")))
    assert (more.frame, more.entities) == ("take _ from _", (("red", "fig"), ("shelf", "1")))
    assert (more.verb, more.heads) == ("take", ("fig", "shelf"))
    assert read_command(both, {("fig",), ("shelf", "1")}) == little
    assert read_command("", set()).frame == ""


def test_parts_differ_with_the_roles_of_things() -> None:
    goal, past, observation = states(0)[-1]
    situation = Situation(goal, past, observation)
    thing = situation.past[-1].entities[0]
    named, unnamed = (situation.view(roles_of(r)).part(thing) for r in ((thing[-1],), ()))
    assert (named.role, unnamed.role) == (1, 0)
    assert situation.view(roles_of((thing[-1],))).part(thing) is named

"""Whatever a model replies, something is read out of it, and how it was formed is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm import registry
from ldm.agents.replies import LONGEST_ACTION, LONGEST_THOUGHT, Reply, read, verbs_of
from ldm.envs import GROUP, load_env
from tests.cases import cases
from tests.toy import ToyEnv, expert_trajectories

VERBS = frozenset({"go", "take", "look", "search", "click", "put", "open"})


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Act: go to desk 1", Reply(action="go to desk 1")),
        ("  act:   go to desk 1 \n", Reply(action="go to desk 1")),
        ("Think: I need a mug.", Reply(thought="I need a mug.")),
        ("Think: A mug.\nAct: go to desk 1", Reply(thought="A mug.", action="go to desk 1")),
        ("Act: dance", Reply(action="dance")),
        ("Act: go to desk 1; it is near", Reply(action="go to desk 1; it is near")),
    ],
)
def test_what_is_asked_for_is_read_as_it_stands(text: str, reply: Reply) -> None:
    assert read(text, VERBS) == reply


@pytest.mark.parametrize("text", cases(__file__, "other_dress_is_loose_and_hides_no_action"))
def test_other_dress_is_loose_and_hides_no_action(text: str) -> None:
    assert read(text, VERBS) == Reply(action="go to desk 1", form="loose")


@pytest.mark.parametrize("text", cases(__file__, "a_thought_before_the_action_is_kept"))
def test_a_thought_before_the_action_is_kept(text: str) -> None:
    reply = read(text, VERBS)
    assert reply.thought == "a mug."
    assert reply.action in ("go to desk 1", "")
    assert reply.form == "loose"


@pytest.mark.parametrize(("text", "dropped"), cases(__file__, "of_several_actions"))
def test_of_several_actions_the_first_is_taken_and_the_others_are_counted(
    text: str, dropped: int
) -> None:
    reply = read(text, VERBS)
    assert reply.action.startswith("go to desk 1")
    assert reply.dropped == dropped
    assert reply.form == "loose"


@pytest.mark.parametrize(
    ("text", "action"), cases(__file__, "where_nothing_can_be_read_the_first_line_is_the_action")
)
def test_where_nothing_can_be_read_the_first_line_is_the_action(text: str, action: str) -> None:
    assert read(text, VERBS) == Reply(action=action, form="malformed")


def test_brackets_belong_to_an_action_and_what_follows_does_not() -> None:
    for text, action in [
        ("Act: search[lamp; red, then blue] to begin with", "search[lamp; red, then blue]"),
        ("Click[Buy Now].", "click[Buy Now]"),
        ("click[[large]]", "click[[large]]"),
        ("click[< Prev]", "click[< Prev]"),
    ]:
        assert read(text, VERBS).action == action


@pytest.mark.parametrize(
    ("text", "verdict"), cases(__file__, "a_verdict_is_heard_where_the_model_is_to_judge")
)
def test_a_verdict_is_heard_where_the_model_is_to_judge(text: str, verdict: str) -> None:
    assert read(text, VERBS, judged=True).verdict == verdict
    assert read(text, VERBS).verdict == ""


def test_a_model_that_rambles_is_cut_short() -> None:
    reply = read(f"Think: {'a' * 5000}\nAct: go {'b' * 5000}", VERBS)
    assert len(reply.thought) <= LONGEST_THOUGHT + 1
    assert len(reply.action) <= LONGEST_ACTION + 1


@given(st.text() | st.text("Act:Think \n>{}[]\"'`.;1"))
def test_no_text_breaks_the_reading(text: str) -> None:
    reply = read(text, VERBS, judged=True)
    assert (reply.form == "malformed") == (not reply.thought and not reply.verdict) or reply.action
    assert "\n" not in reply.action
    assert reply.dropped >= 0


@pytest.mark.parametrize("name", registry.names({}, GROUP))
def test_the_verbs_of_an_environment_come_from_its_card(name: str) -> None:
    env_class = load_env(name)
    verbs = verbs_of(env_class(env_class.Options()).card)
    assert {
        "alfworld": {"go", "take", "put", "open", "heat"},
        "hotpotqa": {"search", "lookup", "finish"},
        "webshop": {"search", "click"},
        "tabletop": {"put", "move", "pack", "look"},
        "textcraft": {"craft", "get", "inventory"},
        "minecraft": {"mine", "kill", "craft", "smelt", "equip", "explore", "inventory"},
    }[name] <= verbs


def test_demonstrations_add_the_verbs_that_they_use() -> None:
    assert verbs_of(ToyEnv().card) >= {"go", "take", "wash", "put"}
    assert "go" in verbs_of(ToyEnv().card, expert_trajectories())

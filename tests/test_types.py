"""The values that everything else is made of."""

from dataclasses import replace

from ldm.types import (
    Card,
    History,
    StateActionTuple,
    Step,
    Task,
    Trajectory,
    stable_hash,
    stable_seed,
)
from tests.processes import printed

TASK = Task("train/heat-1", "kitchen", "train", "heat an egg", "heat")
STEPS = (
    Step("open fridge", "You see an egg."),
    Step("", "", thought="The egg is there."),
    Step("take egg", "You hold an egg."),
)
TRAJECTORY = Trajectory(TASK, "You are in a kitchen.", STEPS, 0.0, False, "human")
TUPLE = StateActionTuple(
    *("heat an egg", History(past=(("You are in a kitchen.", "open fridge"),))),
    *("You see an egg.", "take egg", "heat", "kitchen", "train", "train/heat-1", "game 1"),
    trajectory_id="t",
    step=1,
    origin="human",
)


class TestHashesAndSeeds:
    def test_they_are_the_same_under_another_hash_seed(self) -> None:
        code = "from ldm.types import stable_hash; print(stable_hash('a', {'b': [1, None]}))"
        for seed in ("1", "2"):
            assert printed(code, seed=seed).strip() == stable_hash("a", {"b": [1, None]})

    def test_they_depend_on_every_part_and_on_where_one_part_ends(self) -> None:
        assert stable_hash("ab", "c") != stable_hash("a", "bc")
        assert stable_seed(1, "task") != stable_seed(2, "task")
        assert stable_hash({"a": 1, "b": 2}) == stable_hash({"b": 2, "a": 1})


def test_the_leakage_gate_compares_the_source_where_there_is_one() -> None:
    assert TASK.leak_key == "train/heat-1"
    assert replace(TASK, source="product 7").leak_key == "product 7"


class TestTrajectories:
    def test_states_pair_each_action_with_what_was_seen_before_it(self) -> None:
        first, second = TRAJECTORY.states()
        assert first == ((), "You are in a kitchen.", STEPS[0])
        assert second == ((("You are in a kitchen.", "open fridge"),), "You see an egg.", STEPS[2])

    def test_the_id_depends_on_what_was_done_and_seen_only(self) -> None:
        assert replace(TRAJECTORY, score=1.0, success=True).id == TRAJECTORY.id
        assert replace(TRAJECTORY, steps=STEPS[:1]).id != TRAJECTORY.id
        assert replace(TRAJECTORY, opening="You are in a hall.").id != TRAJECTORY.id


def test_the_id_of_a_tuple_does_not_depend_on_the_generation() -> None:
    assert replace(TUPLE, generation=3).id == TUPLE.id
    assert replace(TUPLE, step=2).id != TUPLE.id


def test_a_bare_card_keeps_the_forms_of_actions_and_tells_no_rule() -> None:
    card = Card(
        "den",
        "Lamps are lit by rubbing them.",
        (
            "put THING on PLACE: leave it (in some games: drop THING at PLACE)",
            *("rub THING: light a lamp", "click[A], click[B]: choose", "wait"),
        ),
        skills=("light LAMP: rub it",),
        judged=("light",),
        kinds={"light": "light a lamp"},
        outline="You are in a den.",
    )
    bare = card.bare()
    assert bare.rules == "You are in a den."
    put, *others = bare.actions
    assert put == "put THING on PLACE (in some games: drop THING at PLACE)"
    assert others == ["rub THING", "click[A], click[B]", "wait"]
    assert (bare.name, bare.skills, bare.judged, bare.kinds) == ("den", (), (), card.kinds)
    explained = replace(card, bare_actions=("rub THING: see what happens",))
    assert explained.bare().actions == ("rub THING: see what happens",)

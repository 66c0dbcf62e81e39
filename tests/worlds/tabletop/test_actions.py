"""What actions are understood, and why others are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, normal
from ldm.worlds.tabletop.environment import CARD, Game, game
from ldm.worlds.tabletop.kinds import PLACES, target
from ldm.worlds.tabletop.scene import BLOCK, FLAT, Pose
from tests.worlds.tabletop.test_success import solved, starts

KITS = game("train", "assembling_kits", 0)
HANOI = game("train", "towers_of_hanoi", 0)
BOWLS = game("train", "put_block_in_bowl", 0)
PACKING = game("train", "packing_shapes", 0)
PYRAMID = game("train", "stack_block_pyramid", 0)


def understand(one: Game, action: str, poses: list[Pose] | None = None) -> Move | Refusal:
    return one.kind.understand(normal(action), one.scene, poses or starts(one.scene))


def reason(one: Game, action: str, poses: list[Pose] | None = None) -> str:
    refusal = understand(one, action, poses)
    assert isinstance(refusal, Refusal)
    return refusal.reason


def names(one: Game) -> list[str]:
    return [thing.name for thing in one.scene.things]


def test_every_listed_command_is_understood_and_a_goal_of_the_card(each: Game) -> None:
    for poses in (starts(each.scene), solved(each)):
        for command in each.kind.commands(each.scene, poses):
            assert isinstance(understand(each, command, poses), Move)
            assert command in CARD.goals or "and" in command
    assert len(set(CARD.goals)) == len(CARD.goals) == 285


@pytest.mark.parametrize("one", [KITS, HANOI, BOWLS, PACKING, PYRAMID], ids=lambda g: g.kind.name)
def test_case_articles_plurals_blanks_and_a_full_stop_do_not_count(one: Game) -> None:
    command = one.kind.commands(one.scene, starts(one.scene))[0]
    move = understand(one, command)
    loose = command.replace(" a ", " the ").replace("blocks", "block").replace("the ", "THE  ")
    assert understand(one, f"  {loose.capitalize()}. ") == move


@given(text=st.text() | st.text("putmoveackhlr bwsidn|.\n[]").map(lambda t: f"put the {t}"))
def test_no_text_breaks_the_grammar(text: str) -> None:
    for one in (KITS, HANOI, BOWLS, PACKING, PYRAMID):
        assert isinstance(understand(one, text), Move | Refusal)


def test_a_text_of_absurd_length_is_no_action() -> None:
    assert understand(KITS, "put the " + "a " * 10_000 + "in the square hole") == NO_ACTION


def test_absent_things_are_named() -> None:
    ring = next(c for c in ("red", "blue", "gray", "cyan") if c not in str(names(HANOI)))
    action = f"move the {ring} ring to the darker brown side"
    assert reason(HANOI, action) == f"There is no {ring} ring here."
    assert reason(KITS, "put the red horse in the square hole") == "There is no red horse here."
    assert reason(PACKING, "pack the horse in the brown box") == "There is no horse here."
    assert reason(BOWLS, "put the pink blocks in a red bowl") == "There is no pink block here."
    block = names(BOWLS)[0].split()[0]
    assert reason(BOWLS, f"put the {block} blocks in a pink bowl") == "There is no pink bowl here."
    assert "pink" in reason(PYRAMID, "put the red block on the pink and blue blocks")
    assert "pink" in reason(PYRAMID, "put the red block on the pink brown block")


def test_an_object_fits_no_hole_of_another_shape() -> None:
    thing = KITS.scene.things[0]
    other = next(hole.form.name for hole in KITS.scene.holes if hole.form is not thing.form)
    assert reason(KITS, f"put the {thing.name} in the {other} hole") == (
        f"The {thing.name} does not fit the {other.lower()} hole."
    )


def test_the_colour_of_what_is_packed_may_be_left_out() -> None:
    thing = PACKING.scene.things[0]
    with_colour = understand(PACKING, f"pack the {thing.name} in the brown box")
    assert understand(PACKING, f"pack the {thing.noun} in the brown box") == with_colour


class TestTower:
    """The rules of the game."""

    large, middle, small = names(HANOI)

    def test_only_the_top_ring_can_be_moved(self) -> None:
        assert reason(HANOI, f"move the {self.large} to the middle of the stand") == (
            f"The {self.large} is under the {self.small}."
        )

    def test_no_ring_comes_onto_a_smaller_one(self) -> None:
        poses = starts(HANOI.scene)
        poses[2] = replace(solved(HANOI)[0], z=FLAT / 2)
        action = f"move the {self.middle} to the darker brown side"
        assert "larger than" in reason(HANOI, action, poses)
        action = f"move the {self.middle} to the middle of the stand"
        assert isinstance(understand(HANOI, action, poses), Move)

    def test_a_ring_comes_to_lie_on_the_rings_that_are_there(self) -> None:
        poses = solved(HANOI)
        poses[2] = starts(HANOI.scene)[0]
        move = understand(HANOI, f"move the {self.small} to the darker brown side", poses)
        assert isinstance(move, Move)
        assert move.target.z == pytest.approx(2.5 * FLAT)

    def test_a_ring_that_is_not_straight_is_still_in_the_way_and_can_be_put_again(self) -> None:
        poses = starts(HANOI.scene)
        dark = solved(HANOI)[0]
        poses[2] = replace(dark, x=dark.x + 0.04)
        where = HANOI.kind.whereabouts(HANOI.scene, poses)[2]
        assert where == "on the darker brown side, but not straight"
        action = f"move the {self.middle} to the darker brown side"
        assert "larger than" in reason(HANOI, action, poses)
        again = f"move the {self.small} to the darker brown side"
        assert again in HANOI.kind.commands(HANOI.scene, poses)
        poses[2] = dark
        assert again not in HANOI.kind.commands(HANOI.scene, poses)


class TestPyramid:
    colours = tuple(name.split()[0] for name in names(PYRAMID))

    def test_two_blocks_carry_a_third_only_side_by_side(self) -> None:
        first, second, third, *_ = self.colours
        action = f"put the {third} block on the {first} and {second} blocks"
        assert "side by side" in reason(PYRAMID, action)
        poses = starts(PYRAMID.scene)
        poses[0], poses[1] = solved(PYRAMID)[:2]
        move = understand(PYRAMID, action, poses)
        assert isinstance(move, Move)
        where = target(PYRAMID.scene, PLACES[3])
        assert move.target.distance(where) < 1e-9
        assert move.target.z == pytest.approx(where.z)
        poses[1] = replace(poses[1], z=poses[1].z + BLOCK)
        assert "side by side" in reason(PYRAMID, action, poses)

    def test_a_place_that_is_taken_is_refused(self) -> None:
        first, second, *_ = self.colours
        poses = starts(PYRAMID.scene)
        poses[0] = solved(PYRAMID)[0]
        assert reason(PYRAMID, f"put the {second} block on the lightest brown block", poses) == (
            f"The {first} block is there already."
        )

    def test_a_block_under_another_cannot_be_picked(self) -> None:
        poses = solved(PYRAMID)
        poses[5] = starts(PYRAMID.scene)[5]
        free = poses.copy()
        free[3] = free[4] = starts(PYRAMID.scene)[4]
        first, second, third, upper, *_ = self.colours
        away = f"put the {first} block on the {second} and {third} blocks"
        assert reason(PYRAMID, away, poses).endswith("is there already.")
        again = f"put the {first} block on the lightest brown block"
        assert reason(PYRAMID, again, poses) == f"The {first} block is under the {upper} block."
        assert isinstance(understand(PYRAMID, again, free), Move)

    def test_what_is_askew_is_said_and_can_be_put_again(self) -> None:
        poses = starts(PYRAMID.scene)
        straight = solved(PYRAMID)[0]
        for by, words in ((0.0, "on the lightest brown block"),
                          (0.012, "on the lightest brown block, but not straight"),
                          (0.2, "on the table")):  # fmt: skip
            poses[0] = replace(straight, x=straight.x + by, z=straight.z if by < 0.1 else 0.02)
            assert PYRAMID.kind.whereabouts(PYRAMID.scene, poses)[0] == words
            again = f"put the {self.colours[0]} block on the lightest brown block"
            assert isinstance(understand(PYRAMID, again, poses), Move)
            assert (again in PYRAMID.kind.commands(PYRAMID.scene, poses)) == (by > 0)


def test_the_box_gets_each_thing_a_place_of_its_own() -> None:
    poses = starts(PACKING.scene)
    targets: list[Pose] = []
    for number, thing in enumerate(PACKING.scene.things):
        move = understand(PACKING, f"pack the {thing.name} in the brown box", poses)
        assert isinstance(move, Move)
        assert all(move.target.distance(target) > 2 * 0.036 for target in targets)
        targets.append(move.target)
        poses[number] = move.target
    assert PACKING.kind.share(PACKING.scene, poses) == 1.0


def test_a_full_box_still_takes_a_thing_where_most_room_is() -> None:
    box = PACKING.scene.fixtures[0].pose
    crowded = [box.place(0.02 * n - 0.04, 0.0) for n in range(len(PACKING.scene.things))]
    move = understand(PACKING, f"pack the {names(PACKING)[0]} in the brown box", crowded)
    assert isinstance(move, Move)
    assert min(move.target.distance(pose) for pose in crowded[1:]) > 0.05

"""Fine-grained feedback (AutoPlan's Table 6): each kind on real games, and true in every case."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ldm.testing import EnvironmentContract
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from ldm.worlds.alfworld.feedback import reason
from ldm.worlds.alfworld.games import NOTHING, Game, own_games, read_game, translate
from ldm.worlds.alfworld.world import World

ON_ONE = ("go to", "open", "close", "use", "examine")
VERBS = (*ON_ONE, "take", "put", "clean", "heat", "cool", "slice")


class TestWithFineFeedback(EnvironmentContract):
    name = "alfworld"
    split = "demo_test"
    tasks = 2
    options: ClassVar[dict[str, Any]] = {"feedback": "fine"}


class Scene:
    """A game with feedback, played by commands."""

    def __init__(self, game: Game) -> None:
        self.world = World(game)
        self.state = self.world.start

    def do(self, *commands: str) -> str:
        """The answer to the last of some admissible commands."""
        answer = ""
        for command in commands:
            action = self.world.commands(self.state)[command]
            answer, self.state = self.world.apply(action, self.state)
        return answer

    def why(self, command: str) -> tuple[str, str] | None:
        return reason(self.world, self.state, command)

    def kind(self, command: str) -> str:
        return (self.why(command) or ("",))[0]


@pytest.fixture
def kitchen() -> Scene:
    """Our own household 40: an apple to heat; a mug, a spoon and a lettuce on countertop 1."""
    return Scene(next(game for game in own_games("demo_test") if "-40/" in game.id))


TABLE, FRIDGE = "go to countertop 1 > ", "go to fridge 1 > "
MUG, SPOON = (f"{TABLE}take {thing} 1 from countertop 1 > " for thing in ("mug", "spoon"))


@pytest.mark.parametrize(
    ("commands", "kind", "sentence"),
    [
        ("take mug from countertop 1", "missing index", "Say which mug is meant"),
        ("go to fridge", "missing index", "as in fridge 1."),
        ("heat the mug 1 with the microwave", "missing index", "Say which microwave"),
        ("use desklamp", "missing index", "Say which desklamp"),
        ("take mug 1 from countertop 1", "wrong location", "not at the countertop 1."),
        ("put mug 1 in/on countertop 1", "wrong location", "not at the countertop 1."),
        ("open fridge 1", "wrong location", "not at the fridge 1."),
        ("heat mug 1 with microwave 1", "wrong location", "not at the microwave 1."),
        ("examine fridge 1", "wrong location", "not at the fridge 1."),
        ("use desklamp 1", "wrong location", "You see no desklamp 1 where you are."),
        ("go to toaster 1", "invalid receptacle", "no place called toaster 1 in this room."),
        ("go to kitchen", "invalid receptacle", "no place called kitchen in this room."),
        ("take egg 1 from mug 1", "invalid receptacle", "no place called mug 1"),
        (f"{TABLE}open countertop 1", "invalid receptacle", "nothing to open"),
        (f"{MUG}go to stoveburner 1 > move mug 1 to stoveburner 1",
         "invalid receptacle", "The stoveburner 1 does not take the mug 1."),
        (f"{FRIDGE}take egg 1 from fridge 1", "closed receptacle", "The fridge 1 is"),
        (f"{FRIDGE}put egg 1 in fridge 1", "closed receptacle", "fridge 1 is closed."),
        (f"{MUG}take spoon 1 from countertop 1", "inventory limit", "and you hold the mug 1."),
        (f"{TABLE}move mug 1 to countertop 1", "not in inventory", "not holding"),
        ("go to microwave 1 > heat apple 1 with microwave 1", "not in inventory", "the apple 1."),
        ("examine mug 1", "not in inventory", "not holding the mug 1."),
        ("slice lettuce 1 with butterknife 1", "not in inventory", "the butterknife 1."),
        ("heat apple 1 with stoveburner 1", "invalid appliance", "not made for heating."),
        ("clean apple 1 with fridge 1", "invalid appliance", "not made for cleaning."),
        ("cool apple 1 with microwave 1", "invalid appliance", "not made for cooling."),
        ("use microwave 1", "invalid appliance", "cannot be switched on or off."),
        (f"{SPOON}slice lettuce 1 with spoon 1", "invalid appliance", "not made for slicing."),
    ],
)  # fmt: skip
def test_each_kind_in_our_kitchen(kitchen: Scene, commands: str, kind: str, sentence: str) -> None:
    *before, command = commands.split(" > ")
    kitchen.do(*before)
    reason = kitchen.why(command) or ("", "")
    assert reason[0] == kind
    assert sentence in reason[1]


@pytest.mark.parametrize(
    "commands",
    ["frobnicate", "", "take mug 1", f"{TABLE}go to countertop 1",
     f"{TABLE}take egg 9 from countertop 1", f"{FRIDGE}close fridge 1",
     f"{FRIDGE}open fridge 1 > open fridge 1",
     f"{SPOON}go to microwave 1 > heat spoon 1 with microwave 1"],
)  # fmt: skip
def test_another_reason_remains_unsaid(kitchen: Scene, commands: str) -> None:
    *before, command = commands.split(" > ")
    kitchen.do(*before)
    assert kitchen.why(command) is None


def official(shared_data: Path, name: str) -> Game:
    root = shared_data / "alfworld" / "json_2.1.1"
    (file,) = sorted((root / "valid_seen").glob(f"{name}/*/game.tw-pddl"))[:1]
    game = read_game(file, file.parent.relative_to(root).as_posix())
    assert isinstance(game, Game)
    return game


def test_what_is_said_is_true_in_our_own_games() -> None:
    kinds = Counter[str]()
    for game in own_games("demo_test")[::6]:
        kinds.update(true_reasons(game, steps=25))
    assert len(kinds) == 7, "each of AutoPlan's kinds is met"


def true_reasons(game: Game, steps: int) -> Iterator[str]:
    """The kinds of feedback on a random walk, each checked against what the game itself shows."""
    rng = random.Random(game.id)
    scene = Scene(game)
    things = [name for name in scene.world.names.values() if re.fullmatch(r"[a-z]+ \d+", name)]
    for _ in range(steps):
        possible = scene.world.commands(scene.state)
        for _ in range(30):
            here = sorted(names(scene.do("look").split("Next to it")[0])) or things
            command = translate(some_command(rng, things, here), scene.world.rules.dialect)
            reason = scene.why(command)
            if command in possible:
                continue
            if reason:
                check(scene, command, *reason)
                yield reason[0]
            else:
                check_silence(scene, command)
        preferred = [c for c in possible if c.split()[0] in ("take", "open", "put", "move")]
        scene.do(rng.choice(sorted(preferred if preferred and rng.random() < 0.5 else possible)))


def some_command(rng: random.Random, things: list[str], here: list[str]) -> str:
    """A command about some of the game's things, now and then at the place where the agent is."""
    verb = rng.choice(VERBS)
    first, second = rng.choice(things), rng.choice(here if rng.random() < 0.3 else things)
    if rng.random() < 0.1:
        first = first.split()[0]
    between = {"take": "from", "put": "in/on", "slice": "with"}.get(verb, "with")
    return f"{verb} {first}" if verb in ON_ONE else f"{verb} {first} {between} {second}"


def names(text: str) -> set[str]:
    return set(re.findall(r"\b[a-z]+ \d+\b", text))


def check(scene: Scene, command: str, kind: str, sentence: str) -> None:
    """That the game's own texts and commands bear out what was said."""
    things = re.findall(r"\b[a-z]+ \d+\b", sentence)
    facing = names(scene.do("look").split("Next to it")[0])
    carried = scene.do("inventory")
    places = scene.world.introduction.split("Your task is to")[0]
    if kind == "missing index":
        (kind_name,) = re.findall(r"Say which (\w+) is", sentence)
        assert re.search(rf"\b{kind_name}(?! \d)", command)
    elif sentence.startswith("You see no"):
        for place in facing:
            assert things[0] not in names(scene.do(f"examine {place}")) - {place}
    elif kind == "wrong location":
        assert things[0] in names(places)
        assert things[0] not in facing
    elif kind == "closed receptacle":
        assert scene.do(f"examine {things[0]}") == f"The {things[0]} is closed."
    elif kind == "inventory limit":
        assert carried == f"You are carrying: a {things[0]}."
    elif kind == "not in inventory":
        assert things[0] not in names(carried)
    elif "no place called" in sentence:
        (absent,) = re.findall(r"called ([a-z]+(?: \d+)?) in", sentence)
        assert not re.search(rf"\b{absent}\b", places)
    else:
        assert kind in ("invalid receptacle", "invalid appliance")
        check_never_possible(scene, command, things)


def check_never_possible(scene: Scene, command: str, things: list[str]) -> None:
    """That being there, with what is closed open, would not help."""
    before, (verb, *_) = scene.state, command.split()
    place = re.findall(r"[a-z]+ \d+", command)[-1]
    if f"go to {place}" in scene.world.commands(scene.state):
        scene.do(f"go to {place}")
    if f"open {place}" in scene.world.commands(scene.state) and verb != "open":
        scene.do(f"open {place}")
    possible = scene.world.commands(scene.state)
    assert command not in possible
    if verb in ("open", "close"):
        assert not {f"open {place}", f"close {place}"} & set(possible)
    if verb in ("clean", "heat", "cool"):
        assert not [c for c in possible if c.startswith(verb) and c.endswith(f"with {place}")]
    if verb in ("put", "move"):
        assert things[-1] in names(scene.do("inventory"))
        assert not [c for c in possible if c.startswith(("put", "move")) and c.endswith(place)]
    scene.state = before


def check_silence(scene: Scene, command: str) -> None:
    """That none of the seven was passed over: another reason is plain."""
    verb, *_ = command.split()
    things = re.findall(r"[a-z]+ \d+", command)
    if verb == "go":
        assert things[0] in names(scene.do("look"))
    elif verb == "take":
        there = names(scene.do(f"examine {things[1]}")) - {things[1]}
        fixed = [t for t in scene.world.names if not scene.world.holds("pickupable", t)]
        assert things[0] not in there or things[0] in {scene.world.names[t] for t in fixed}
    elif verb in ("open", "close"):
        state = "open" if verb == "open" else "closed"
        assert f"is {state}" in scene.do(f"examine {things[0]}")
    elif verb in ("clean", "heat", "cool"):
        assert things[0] in names(scene.do("inventory"))
    else:
        assert verb in ("use", "slice")


class TestInTheEnvironment:
    def env(self, **options: Any) -> ALFWorld:
        return ALFWorld(ALFWorldOptions(**options))

    def test_it_follows_the_plain_answer(self) -> None:
        plain, fine = self.env(), self.env(feedback="fine")
        task = fine.tasks("demo_test")[0]
        for env in (plain, fine):
            env.reset(task)
        assert plain.step("go to toaster 1").observation == NOTHING
        answer = fine.step("go to toaster 1")
        assert answer.observation.startswith(f"{NOTHING} There is no place called toaster 1")
        assert not answer.valid
        assert fine.step("dance").observation == NOTHING

    def test_it_understands_both_dialects(self) -> None:
        fine = self.env(feedback="fine")
        place = re.findall(r"[a-z]+ \d+", fine.reset(fine.tasks("demo_test")[0]).observation)[0]
        answer = fine.step(f"put mug 1 in/on {place}").observation
        assert answer == fine.step(f"move mug 1 to {place}").observation
        assert "You are not at" in answer

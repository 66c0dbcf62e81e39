"""Game files are data: no engine runs what a grammar says, and a check finds what eval refuses."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.worlds.alfworld import data
from ldm.worlds.alfworld.environment import ALFWorld, ALFWorldOptions
from ldm.worlds.alfworld.feedback import FastEngine
from ldm.worlds.alfworld.games import own_games
from tests.worlds.alfworld.test_environment import make_game
from tools.alfworld.official_engine import OfficialEngine

TRIAL = "pick_and_place_simple-Pen-None-Desk-1/trial_1"


@pytest.mark.parametrize(
    "expression", ["{{open({mark!r}, 'a').write('x')}}", "#{{open({mark!r}, 'a')}}#"]
)
@pytest.mark.parametrize("place", ["task", "rule"])
@pytest.mark.parametrize("engine", [FastEngine, OfficialEngine])
def test_an_expression_of_their_own_is_refused_and_not_run(
    tmp_path: Path, expression: str, place: str, engine: Callable[[], FastEngine | OfficialEngine]
) -> None:
    mark = tmp_path / "mark"
    file = make_game(tmp_path, "train", TRIAL)
    content = json.loads(file.read_text())
    target = "Your task is to: " if place == "task" else "On the "
    code = expression.format(mark=str(mark))
    assert target in content["grammar"]
    content["grammar"] = content["grammar"].replace(target, target + code)
    file.write_text(json.dumps(content))
    (problem,) = data.check(tmp_path).problems
    assert (problem.file, problem.field) == (str(file), "grammar")
    env = ALFWorld(ALFWorldOptions(data=str(tmp_path)), engine())  # type: ignore[arg-type]
    with pytest.raises(LdmError, match="grammar"):
        env.tasks("train")
    game = replace(
        own_games("demo_test")[0], domain=content["pddl_domain"], grammar=content["grammar"]
    )
    with pytest.raises(LdmError, match=r"plain words|neither of ALFWorld's two"):
        engine().start(game)
    with pytest.raises(LdmError, match="plain words"):
        OfficialEngine().start(replace(own_games("demo_test")[0], goal=code))
    assert not mark.exists()


def test_a_check_finds_every_game_that_cannot_be_played(tmp_path: Path) -> None:
    draw, ends = random.Random(0), Counter[bool]()
    file = make_game(tmp_path, "train", TRIAL)
    whole = file.read_bytes()
    for _ in range(120):
        at = draw.randrange(len(whole))
        token = draw.choice([b"(", b")", b"?x", b"\xff", b"{", b'"', b"and", b"-", b"agent1 "])
        file.write_bytes(whole[:at] + token + whole[at + draw.randint(0, 3) :])
        problems = data.check(tmp_path).problems
        env = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
        try:
            env.reset(env.tasks("train")[0])
            played = True
        except LdmError:
            played = False
        ends[played] += 1
        assert played != bool(problems), (problems, file.read_bytes())
    assert min(ends.values()) > 5

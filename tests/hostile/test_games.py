"""Game files are data: no engine runs what a grammar says, and a check finds what eval refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.envs.alfworld import data
from ldm.envs.alfworld.environment import ALFWorld, ALFWorldOptions
from ldm.envs.alfworld.fast import FastEngine
from ldm.envs.alfworld.games import own_games
from ldm.envs.alfworld.official import OfficialEngine
from ldm.errors import LdmError
from tests.envs.alfworld.test_environment import make_game

TRIAL = "pick_and_place_simple-Pen-None-Desk-1/trial_1"


def damage(file: Path, draw: random.Random) -> None:
    """Cut the file short, or change some of its bytes."""
    content = bytearray(file.read_bytes())
    if draw.random() < 0.2:
        del content[draw.randrange(len(content)) :]
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(content) or 1)
        content[place : place + draw.randint(0, 3)] = draw.choice(
            [b"(", b")", b"?x", b"\xff", b"", b"{", b'"', b"and", b"-", b"agent1 "]
        )
    file.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "expression",
    [
        "{{open({mark!r}, 'a').write('x')}}",
        "#{{open({mark!r}, 'a')}}#",
        "[{{open({mark!r}, 'a')|holds(a, o)}}]",
    ],
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
    name = "fast" if engine is FastEngine else "official"
    env = ALFWorld(ALFWorldOptions(data=str(tmp_path), engine=name))  # type: ignore[arg-type]
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
    draw, played, refused = random.Random(0), 0, 0
    file = make_game(tmp_path, "train", TRIAL)
    whole = file.read_bytes()
    for _ in range(250):
        file.write_bytes(whole)
        damage(file, draw)
        problems = data.check(tmp_path).problems
        env = ALFWorld(ALFWorldOptions(data=str(tmp_path)))
        try:
            (task,) = env.tasks("train")
            env.reset(task)
        except LdmError:
            refused += 1
            assert problems, file.read_bytes()
        else:
            played += 1
            assert not problems, problems
    assert min(played, refused) > 10

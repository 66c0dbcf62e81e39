"""States of environments: small, safe to load, and of use with the same options only."""

import json
import pickle
import random
import zlib

import pytest

import ldm
from ldm.envs import load_env
from ldm.errors import LdmError
from ldm.types import TimeStep
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.alfworld.environment import ALFWorldOptions
from tests.conftest import CHECKOUT

SIZE = 4_096


@pytest.fixture
def walked() -> tuple[ALFWorld, TimeStep]:
    """A game after a hundred random steps."""
    env, rng = ALFWorld(), random.Random(7)
    now = env.reset(env.tasks("demo_test")[0])
    for _ in range(100):
        aimless = [x for x in now.admissible or () if not x.startswith(("move", "put", "use"))]
        now = env.step(rng.choice(aimless))
    return env, now


def test_a_hundred_steps_fit_into_four_kilobytes(walked: tuple[ALFWorld, TimeStep]) -> None:
    env, now = walked
    assert len(env.state()) <= SIZE
    assert ALFWorld().restore(env.state()) == now
    assert pickle.loads(pickle.dumps(env)).state() == env.state()


def test_a_fork_and_its_origin_have_states_of_their_own(walked: tuple[ALFWorld, TimeStep]) -> None:
    env, now = walked
    twin, before = env.fork(), env.state()
    twin.step((now.admissible or ("",))[0])
    assert env.state() == before != twin.state()
    assert twin.reset(env.tasks("demo_test")[1]).observation != env.restore(before).observation


def test_a_state_leads_nowhere_in_another_environment(walked: tuple[ALFWorld, TimeStep]) -> None:
    env, _ = walked
    for name in ("textcraft", "webshop"):
        kind = load_env(name)
        with pytest.raises(LdmError):
            kind(kind.Options()).restore(env.state())


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"nonsense",
        pickle.dumps(print),
        zlib.compress(b"[1]"),
        zlib.compress(b"[" * 10_000),
        zlib.compress(b'{"task": {"id": "../../x", "env": "alfworld", "split": "", "goal": "",'
                      b' "kind": ""}, "actions": [], "answer": ""}'),
        zlib.compress(b'{"task": {"id": "train/../x", "env": "alfworld", "split": "", "goal": "",'
                      b' "kind": ""}, "actions": [], "answer": ""}'),
        zlib.compress(b" " * (1 << 28)),
        zlib.compress(b'{"task": 1}')[:-5],
    ],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_state_is_refused(state: bytes) -> None:
    with pytest.raises(LdmError):
        ALFWorld().restore(state)


def test_a_state_that_goes_on_after_the_end_is_refused() -> None:
    env = ALFWorld()
    shipped = ldm.read_trajectories(CHECKOUT / "data" / "trajectories" / "alfworld")[0]
    env.reset(shipped.task)
    for step in shipped.steps:
        env.step(step.action)
    played = json.loads(zlib.decompress(env.state()))
    assert env.restore(env.state()).done
    played["actions"].append("look")
    with pytest.raises(LdmError, match="leads elsewhere"):
        env.restore(zlib.compress(json.dumps(played).encode()))


def test_an_environment_without_a_task_has_no_state() -> None:
    env = pickle.loads(pickle.dumps(ALFWorld(ALFWorldOptions(dialect="move"))))
    assert env.options.dialect == "move"
    with pytest.raises(RuntimeError, match="call reset first"):
        env.state()

"""Trainers' servers and classes play the environments as a session does."""

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from ldm.errors import LdmError
from ldm.integrations.panel import Session
from ldm.integrations.trl import factory, rows
from tests.integrations.test_gym import recorded
from tests.serve.conftest import served

ENV, SPLIT = "alfworld", "demo_train"
TASK = next(task for task, actions in recorded(ENV).items() if len(actions) > 8)
ACTIONS = recorded(ENV)[TASK]


@pytest.fixture
def session() -> Iterator[Session]:
    """Return a session that has played the task to its end."""
    session = Session(ENV, SPLIT)
    session.reset(TASK)
    for action in ACTIONS:
        session.step(action)
    yield session
    session.close()


def test_trl(session: Session) -> None:
    listed = rows(ENV, SPLIT)
    [row] = [one for one in listed if one["task"] == TASK]
    assert len(listed) == len(session.tasks)
    rollout = factory(ENV, SPLIT)()
    assert "Possible: " in rollout.reset(**row)
    assert "Nothing happens." in rollout.act("fly away")
    seen = [rollout.act(action) for action in ACTIONS][-1]
    assert seen.startswith(session.now.observation)
    assert rollout.get_reward() == session.score
    tools = {name for name in vars(type(rollout)) if not name.startswith("_")}
    assert tools == {"reset", "act", "get_reward"}


def test_forks_of_a_session_go_on_apart(session: Session) -> None:
    session.reset(TASK)
    session.step(ACTIONS[0])
    group = [session.fork() for _ in range(16)]
    for twin in group[1:]:
        twin.step("look")
    assert {twin.steps for twin in group} == {1, 2}
    assert group[0].step(ACTIONS[1]) == session.step(ACTIONS[1])


def test_openenv(session: Session) -> None:
    pytest.importorskip("openenv", reason="make integrations installs openenv")
    from openenv.core import GenericEnvClient

    from ldm.integrations.openenv import server

    async def main(url: str) -> None:
        async with GenericEnvClient(base_url=url) as one, GenericEnvClient(base_url=url) as other:
            now = await one.reset(task=TASK)
            for action in ACTIONS[:-1]:
                now = await one.step({"command": action})
            saved = (await one.state())["saved"]
            forked = await other.reset(state=saved)
            assert forked.observation["text"] == now.observation["text"]
            for client in (one, other):
                now = await client.step({"command": ACTIONS[-1]})
                assert now.observation["text"] == session.now.observation
                assert now.observation["score"] == session.score

    with served(server(ENV, SPLIT)) as url:
        asyncio.run(main(url))


def test_agentgym(session: Session) -> None:
    pytest.importorskip("starlette", reason="needs ldm-memory[serve]")
    from ldm.integrations.agentgym import Gym, server

    with served(server(ENV, SPLIT)) as url:
        number = httpx2.post(f"{url}/create").json()["id"]
        game = [task.id for task in session.tasks].index(TASK)
        body = {"id": number, "game": game, "world_type": "Text"}
        started = httpx2.post(f"{url}/reset", json=body).json()
        assert started["available_actions"]
        for action in ACTIONS:
            now = httpx2.post(f"{url}/step", json={"id": number, "action": action}).json()
        assert now["observation"] == session.now.observation
        assert now["reward"] == session.score
        seen = httpx2.get(f"{url}/observation", params={"id": number}).json()
        assert seen == session.now.observation
        assert httpx2.post(f"{url}/close", json={"id": number}).json() == {"closed": True}
        for wrong in (b"{", b"{}", b"[1]", b'{"id": "x"}', b'{"id": null}', b'{"id": Infinity}'):
            assert "error" in httpx2.post(f"{url}/step", content=wrong).json()
    gym = Gym(lambda: Session(ENV, SPLIT), idle=0)
    abandoned = gym.create({})
    gym.create({})
    with pytest.raises(LdmError, match="no such session"):
        gym.detail(abandoned)

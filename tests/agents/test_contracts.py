"""Every agent that asks a model keeps the contract in every environment, whatever it is told."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest

from ldm.agents import AGENTS, load_agent
from ldm.config import Section
from ldm.episode import Agent, Environment, run_episode
from ldm.errors import LdmError
from ldm.testing import AgentContract, Onlooker
from tests.agents.loop_contract import LOOP_AGENTS, SPLITS, make_agent, played
from tests.agents.scripted import ODD, always, babbling
from tests.cases import cases
from tests.llm.conftest import make_client
from tests.llm.server import Behaviour, FakeServer, completion

#: Agent → the options of its episodes here.
HELD: dict[str, dict[str, Any]] = {
    **{name: {"budget": 9, "trials": 2} for name in LOOP_AGENTS},
    **{
        name: {"budget": 16, "d_max": 3, "executor_steps": 3, "max_calls": 24}
        for name in ("adapt", "autoplan", "plan_execute")
    },
    "lats": {"budget": 5, "simulations": 2, "width": 2, "shots": 1},
}
#: Agents that play in some environments only, and one of these.
PARTICULAR = {"random": "toy", "naive": "webshop", "expert": "alfworld", "cot": "hotpotqa"}
PLANS = (
    "Step 1: go to shelf 1\nStep 2: look\nExecution Order: Step 1 OR Step 2",
    "Step 1: shortlist them\nStep 2: match it\nStep 3: wait\nExecution Order: (1 AND 2) OR 3",
    "1. a\n2. b\n" * 30,
)


def test_every_agent_that_asks_a_model_is_held_to_the_contract() -> None:
    asking = {name for name in AGENTS if "llm" in load_agent(name).needs}
    assert asking == {*HELD, "cot", "standard"}  # which is another name of act


def test_agents_declare_whether_they_see_rewards() -> None:
    seeing = {name for name in AGENTS if load_agent(name).sees_reward}
    assert seeing == {"lats", "reflexion", "try_again"}


PAIRS = [(agent, env) for agent in HELD for env in SPLITS] + [*PARTICULAR.items()]


@pytest.fixture(params=PAIRS, ids="-in-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An agent and an environment."""
    agent, env = request.param
    return agent, env


class TestTheContract(AgentContract):
    """The contract of agents, with a model that babbles."""

    @pytest.fixture(autouse=True)
    def of(self, pair: tuple[str, str]) -> None:
        self.agent, self.env_name = pair
        self.tasks = 4 if self.agent in PARTICULAR else 1
        self.split = SPLITS[self.env_name]

    @pytest.fixture
    def env(self, environments: dict[str, Environment]) -> Environment:
        return environments[self.env_name]

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        options = HELD.get(self.agent, {"budget": 100, "samples": 3})
        options = {**options, "budget": budget or options["budget"]}
        return make_agent(self.agent, babbling(PLANS, "You divide a task"), seed, **options)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", HELD)
def test_no_reply_breaks_an_episode(
    name: str, kind: str, environments: dict[str, Environment]
) -> None:
    """It ends within its limits, everything is recorded, and what was said is counted."""
    for env_name, split in SPLITS.items():
        env = Onlooker(environments[env_name])
        task = env.tasks(split)[0]  # type: ignore[operator]
        llm = always(ODD[kind])
        agent = make_agent(name, llm, **{**HELD[name], "budget": 4})

        result, trials = played(agent, env, task)  # type: ignore[arg-type]

        assert all(len(trial.steps) <= 4 for trial in trials)
        assert result.usage.calls == len(llm.requests)
        if name not in LOOP_AGENTS:
            continue
        assert result.end in ("budget", "done")
        assert [s.action for t in trials for s in t.steps if s.action] == env.actions
        counts = [note.data for note in result.notes if note.kind == "replies"]
        assert len(counts) == result.trials
        replies = sum(c["replies"] for c in counts)
        other = sum(note.kind in ("plan", "reflection") for note in result.notes)
        assert replies == len(llm.requests) - other
        if kind in ("empty", "refusing", "label alone"):
            assert sum(c["malformed"] for c in counts) == replies
            assert result.invalid == result.env_steps


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("Think: so.\n{0}: go to shel", "length"),  # also the longer one that is asked for then
     ("<think>" + "{0}: go to shel\n" * 300 + "</think>Think: so.\n{0}: look", "stop")],
    ids=["half", "thoughts"],
)  # fmt: skip
@pytest.mark.parametrize("name", [*HELD, "cot"])
def test_neither_half_an_action_nor_a_thought_is_played(
    name: str, reply: str, reason: str, environments: dict[str, Environment]
) -> None:
    def cut(body: dict[str, Any]) -> Any:
        content = completion(body, reply.format("Answer" if name == "cot" else "Act"))
        content["choices"][0]["finish_reason"] = reason
        return 200, content, {}

    env = environments["hotpotqa" if name == "cot" else "toy"]
    with FakeServer(Behaviour(reply=cut)) as server, closing(make_client(server)) as client:
        llm: Any = client.model("m")
        agent = make_agent(name, llm, **{"budget": 4, **HELD.get(name, {})})
        _, trials = run_episode(env, agent, env.tasks("demo_test" if name == "cot" else "test")[0])
    assert trials
    assert not any(step.action[-4:] == "shel" for trial in trials for step in trial.steps)


def test_a_model_without_room_is_an_error_that_says_so(
    environments: dict[str, Environment],
) -> None:
    llm = babbling()
    llm._room = 10
    agent = partial(make_agent, llm=llm, budget=4)
    for name in LOOP_AGENTS:
        env = environments["toy"]
        result, _ = run_episode(env, agent(name), env.tasks("test")[0])
        assert result.end == "error"
        assert "ContextTooLong" in result.error


@pytest.mark.parametrize("name", ["react", "adapt", "lats"])
def test_who_copies_the_form_of_a_free_argument_means_the_one_that_is_listed(
    name: str, environments: dict[str, Environment]
) -> None:
    """The form is ours: no shop is searched for its words. The agent `ldm` reads it so, too."""
    env = environments["webshop"]
    task = env.tasks(SPLITS["webshop"])[0]
    llm = always("Act: search[your own keywords]")
    shown, hidden = (
        run_episode(env, make_agent(name, llm, budget=3, admissible=listing), task)[1][0]
        for listing in (True, False)
    )
    assert shown.steps[0].action == f"search[{task.goal}]"
    assert hidden.steps[0].action == "search[your own keywords]"


IMPOSSIBLE: dict[str, dict[str, float]] = cases(__file__, "impossible")


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in IMPOSSIBLE for option in IMPOSSIBLE[name]]
)
def test_impossible_options_are_refused(name: str, option: str) -> None:
    given = Section.read({option: IMPOSSIBLE[name][option]})
    with pytest.raises(LdmError, match=option):
        given.typed(load_agent(name).Options, f"agent {name}")

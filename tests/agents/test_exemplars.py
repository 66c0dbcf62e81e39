"""Agents that are shown the memory's nearest whole trajectories in place of demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.agents import Resources, load_agent, needs_of
from ldm.agents.exemplars import ExemplarOptions
from ldm.agents.transcript import example_texts
from ldm.episode import run_episode
from ldm.errors import LdmError
from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.run.runner import EPISODES
from ldm.types import EpisodeResult
from tests.agents.scripted import Scripted, always
from tests.cli.conftest import Run, run
from tests.embedder import BagOfWords
from tests.llm.conftest import Serve, serve
from tests.toy import ToyEnv, expert_trajectories

__all__ = ["run", "serve"]

AGENTS = ("act", "react", "reflexion", "try_again")
TASK = ToyEnv().tasks("test")[0]
TOY = ("--env", "tests.toy:ToyEnv", "--llm", "fake", "--limit", "2", "--workers", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of twelve episodes; leave it as it is."""
    place = tmp_path_factory.mktemp("memory")
    build(str(place), expert_trajectories(), BagOfWords(), OfflineReasoner)
    return place


@pytest.fixture(scope="module")
def memory(place: Path) -> Memory:
    return Memory.open(str(place), "toy", embedder=BagOfWords())


def played(name: str, memory: Memory, llm: Scripted, **options: Any) -> EpisodeResult:
    """The result of one task, and in `llm` what was asked."""
    agent_class = load_agent(name)
    values = {"budget": 6, "exemplars": 2, **options}
    if hasattr(agent_class.Options(), "trials"):
        values["trials"] = 2
    agent = agent_class(agent_class.Options(**values), Resources(llm=llm, memory=memory))
    result, _ = run_episode(ToyEnv(), agent, TASK)
    assert result.error == "", result.error
    return result


def texts(memory: Memory, count: int) -> list[str]:
    """The nearest exemplars, each by itself."""
    near = [one.trajectory for one in memory.whole_near(TASK.goal)][:count]
    return [example_texts([one], width=4000, thoughts=True)[0] for one in near]


def together(memory: Memory, count: int) -> list[str]:
    """The nearest exemplars as a prompt shows them together: what they begin with stands once."""
    near = [one.trajectory for one in memory.whole_near(TASK.goal)][:count]
    return example_texts(near, width=4000, thoughts=True)


def exemplars_of(result: EpisodeResult) -> list[Any]:
    (note,) = [note for note in result.notes if note.kind == "exemplars"]
    exemplars: list[Any] = note.data["shown"]
    return exemplars


@pytest.mark.parametrize("name", AGENTS)
class TestEachAgent:
    def test_is_shown_the_nearest_trajectories(self, name: str, memory: Memory) -> None:
        llm = always("Act: go to sink")
        played(name, memory, llm)
        for prompt in llm.prompts:
            if "<so-far>" in prompt:
                assert "\n".join(together(memory, 2)) in prompt
                assert "\n".join(together(memory, 3)) not in prompt

    def test_records_once_what_it_was_shown(self, name: str, memory: Memory) -> None:
        result = played(name, memory, always("Act: go to sink"))
        near = list(memory.whole_near(TASK.goal))[:2]
        assert exemplars_of(result) == [[o.id, o.trajectory.task.id, o.similarity] for o in near]

    def test_without_the_option_needs_no_memory(self, name: str, memory: Memory) -> None:
        agent = load_agent(name)
        assert "memory" not in needs_of(agent, agent.Options())
        assert "memory" in needs_of(agent, agent.Options(exemplars=1))
        llm = always("Act: go to sink")
        result = played(name, memory, llm, exemplars=0)
        assert not any(note.kind == "exemplars" for note in result.notes)
        assert not any("\n".join(together(memory, 1)) in prompt for prompt in llm.prompts)

    def test_without_a_memory_says_what_to_do(self, name: str, memory: Memory) -> None:
        agent = load_agent(name)
        with pytest.raises(LdmError, match="takes exemplars from a memory") as raised:
            agent(agent.Options(exemplars=1), Resources(llm=always("")))
        assert "ldm build-memory" in raised.value.remedy


class TestTheBudgetOfTokens:
    def test_what_does_not_fit_gives_way_to_the_next(self, memory: Memory) -> None:
        near = list(memory.whole_near(TASK.goal))
        lengths = [len(text) for text in texts(memory, len(near))]
        tokens = min(lengths) // 3 + 1
        result = played("react", memory, always("Act: go to sink"), exemplar_tokens=tokens)
        (name, *_) = exemplars_of(result)[0]
        fitting = [o.id for o, length in zip(near, lengths, strict=True) if length <= tokens * 3]
        assert name == fitting[0] != near[0].id

    def test_with_too_few_nothing_is_shown(self, memory: Memory) -> None:
        llm = always("Act: go to sink")
        assert exemplars_of(played("react", memory, llm, exemplar_tokens=1)) == []
        assert "Task:" not in llm.prompts[0]


def test_exemplars_do_not_go_with_demonstrations_of_skills() -> None:
    with pytest.raises(ValueError, match="exemplars are whole tasks"):
        ExemplarOptions(exemplars=1, strength="skills")


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def server(
        self, serve: Serve, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONSAFEPATH", "1")
        monkeypatch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords())
        server = serve(answer=lambda body: "Act: go to sink")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")

    def test_compares_with_and_without(self, run: Run, place: Path) -> None:
        options = ("--sweep", "agent.exemplars=0,2", "--agent.budget", "3", "--memory", place)
        run("eval", *TOY, "--agent", "react", *options).done("exemplars=2")
        recorded = sorted(Path("runs").iterdir())
        plans = [json.loads((one / "run.json").read_text())["spec"] for one in recorded]
        assert sorted(bool(plan["memory_digest"]) for plan in plans) == [False, True]
        results = [records.read(one / EPISODES, EpisodeResult) for one in recorded]
        notes = [[note.kind for one in result for note in one.notes] for result in results]
        assert sorted(kinds.count("exemplars") for kinds in notes) == [0, 2]

    def test_tasks_of_the_memory_are_refused(self, run: Run, place: Path) -> None:
        options = ("--agent.exemplars", "1", "--memory", place, "--split", "train")
        run("eval", *TOY, "--agent", "react", *options).refused("also sources of the memory")
        assert not Path("runs").exists()

    def test_without_a_memory_nothing_begins(self, run: Run) -> None:
        run("eval", *TOY, "--agent", "react", "--agent.exemplars", "1").refused(
            "There is no memory"
        )
        assert not Path("runs").exists()

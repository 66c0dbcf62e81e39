"""Adapters for agents' frameworks, each in its example, with its framework."""

import asyncio
import gc
from typing import Any

import pytest

from ldm.integrations.experience import Experience
from tests.integrations.conftest import GOAL, check_recorded, imported

#: Module of the example → package that it needs.
FRAMEWORKS = {
    "with_anthropic": "anthropic",
    "with_google_adk": "google.adk",
    "with_inspect": "inspect_ai",
    "with_langchain": "langchain",
    "with_langgraph": "langgraph",
    "with_openai_agents": "agents",
    "with_pydantic_ai": "pydantic_ai",
    "with_smolagents": "smolagents",
    "with_strands": "strands",
}


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(FRAMEWORKS[request.param], reason="make integrations installs it")
    return imported(request.param)


def example_of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", names, indirect=True)


def test_an_episode_without_a_score_waits_for_it(experience: Experience) -> None:
    attempt = Experience(experience.memory).begin(GOAL)
    attempt.acted("ask_for_photo", {"order": 7}, {"size": (1, 2)})
    attempt.finished("Done.")
    memory = experience.memory
    assert memory.unfinished == (attempt.episode.id,)
    memory.resume(attempt.episode.id).finish(0.5)
    assert memory.recall(GOAL, '{"size": [1, 2]}')[0].tuple.action == '{"answer": "Done."}'


@pytest.mark.filterwarnings("ignore")  # of a run in an event loop of its own
@example_of(*sorted(FRAMEWORKS.keys() - {"with_anthropic", "with_google_adk", "with_langgraph"}))
def test_an_agent_is_advised_and_its_run_recorded(
    example: Any, experience: Experience, monkeypatch: pytest.MonkeyPatch
) -> None:
    if example.__name__ == "with_inspect":  # else it downloads a tokenizer
        monkeypatch.setattr("inspect_ai.model._model.count_text_tokens", len)
    check_recorded(experience, example.play(experience)[0])
    gc.collect()  # streams warn then, and not in another test


@example_of("with_langchain")
def test_an_asynchronous_agent_of_langchain_is_advised_too(
    example: Any, experience: Experience
) -> None:
    example.PROMPTS.clear()
    asyncio.run(example.agent(experience).ainvoke({"messages": [("user", GOAL)]}))
    check_recorded(experience, example.PROMPTS[0])


@example_of("with_google_adk")
def test_google_adk_recalls_earlier_sessions_of_the_user(
    example: Any, experience: Experience
) -> None:
    advised = "PAST_CONVERSATIONS"
    assert advised not in example.play(experience)[0]
    assert experience.memory.stats(where={"user": "u"})["episodes"] == 1
    again = example.play(experience)[0]
    assert advised in again
    assert "ask_for_photo" in again
    assert "success" in again
    assert advised not in asyncio.run(example.run(experience, "another user"))[0]


@example_of("with_langgraph")
def test_a_graph_of_langgraph_finds_what_it_put(example: Any, experience: Experience) -> None:
    from ldm.integrations.langgraph import ExperienceStore

    assert example.play(experience) == [""]
    assert example.play(experience) == ["The lamp is refunded. earned 1.0"]
    store = ExperienceStore(experience.memory)
    chair = {"text": "one red chair", "colours": ["red"], "price": 7}
    store.put(("desk",), "chair", {"text": "a table"})
    store.put(("desk",), "chair", chair)
    item = asyncio.run(store.aget(("desk",), "chair"))
    assert item is not None
    assert (item.key, item.namespace, item.value) == ("chair", ("desk",), chair)
    assert [one.key for one in store.search(("desk",), query="red", limit=1)] == ["chair"]
    assert [one.key for one in store.search(("desk",), filter={"price": 7})] == ["chair"]
    assert store.list_namespaces(prefix=("desk",)) == [("desk",), example.NAMESPACE]
    assert store.list_namespaces(suffix=("*",), max_depth=1) == [("desk",)]
    store.delete(("desk",), "chair")
    assert store.get(("desk",), "chair") is None
    with pytest.raises(ValueError, match="equality"):
        store.search((), filter={"price": {"$gt": 5}})


@example_of("with_anthropic")
def test_a_model_reads_rules_and_examples_as_files_and_changes_none(
    example: Any, experience: Experience
) -> None:
    [prompts] = example.play(experience)
    assert "/memories/rules.md" in prompts
    assert "known way: ask for a photo" in prompts
    assert "secret way" not in prompts
    assert "/memories is read-only" in prompts
    files = example.ExperienceFiles(experience)
    lines = files.call({"command": "view", "path": "/memories/rules.md", "view_range": [1, 1]})
    assert lines.splitlines()[1:] == ["     1\tNo rule holds yet."]
    for path in ("/etc/passwd", "/memories/../etc", "/memories/none.md"):
        with pytest.raises(Exception, match="does not exist"):
            files.call({"command": "view", "path": path})

"""Chat messages: ours are examples to learn from, those of others are read as far as they go."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.interchange import chat
from ldm.memory import build, inspect
from ldm.memory.growing import GrowingMemory
from ldm.memory.lessons import relevance_of
from ldm.reason.offline import OfflineReasoner
from ldm.records import Problem
from ldm.types import Step, Trajectory
from tests.embedder import BagOfWords
from tests.test_types import TRAJECTORY

KITCHEN = Assumed(env="kitchen", kind="heat", origin="human", score=1.0)
GOAL = {"role": "user", "content": "Heat an egg."}


def says(text: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def call(name: str, call_id: str, arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "id": call_id, "function": function}


def read(*messages: dict[str, Any], assumed: Assumed = KITCHEN, **fields: Any) -> Trajectory:
    result = chat.parse(json.dumps({"messages": messages, **fields}), "x.jsonl", 1, assumed)
    assert isinstance(result, Trajectory), result
    return result


def problem(line: dict[str, Any]) -> str:
    result = chat.parse(json.dumps(line), "x.jsonl", 1, KITCHEN)
    assert isinstance(result, Problem)
    return str(result)


class TestOurs:
    def test_speakers_take_turns_and_the_assistant_speaks_last(self) -> None:
        assert chat.line_of(TRAJECTORY)["messages"] == [
            {"role": "user", "content": "heat an egg\n\nYou are in a kitchen."},
            says("open fridge"),
            {"role": "user", "content": "You see an egg."},
            says("take egg"),
        ]

    def test_a_system_prompt_may_be_added(self) -> None:
        line = chat.line_of(TRAJECTORY)
        line["messages"].insert(0, {"role": "system", "content": "You play a game."})
        assert read(*line["messages"], ldm=line["ldm"]) == TRAJECTORY

    @pytest.mark.parametrize(
        ("number", "change"),
        [(0, {"content": "boil an egg"}), (2, {"role": "assistant"}), (3, {"content": "take it"}),
         (3, {"thinking": "It is cold."}), (1, {"tool_calls": [call("open", "1")]})],
    )  # fmt: skip
    def test_a_line_that_was_edited_is_named(self, number: int, change: dict[str, Any]) -> None:
        line = chat.line_of(TRAJECTORY)
        line["messages"][number] |= change
        assert "x.jsonl:1:messages: are not those of the trajectory" in problem(line)
        del line["ldm"]
        assert read(*line["messages"]).steps


class TestOthers:
    def test_the_user_says_the_goal_and_what_is_seen(self) -> None:
        result = read(
            {"role": "system", "content": "You play a game."},
            GOAL,
            {"role": "user", "content": [{"type": "text", "text": "You are in a kitchen."}]},
            says("open fridge", reasoning_content="Eggs are cold."),
            {"role": "user", "content": "You see an egg."},
            says("take egg"),
        )
        assert (result.task.goal, result.opening) == ("Heat an egg.", "You are in a kitchen.")
        assert result.steps == (
            Step("open fridge", "You see an egg.", thought="Eggs are cold."),
            Step("take egg", "", reward=1.0),
        )
        assert (result.task.env, result.task.kind, result.origin) == ("kitchen", "heat", "human")

    def test_the_same_goal_is_the_same_task(self) -> None:
        first, second = read(GOAL, says("a")), read(GOAL, says("b"))
        assert first.task == second.task
        assert first.id != second.id

    def test_calls_of_tools_are_actions_with_their_own_answers(self) -> None:
        calls = [call("open", "1", '{"door": "fridge"}'), call("look", "2")]
        result = read(
            GOAL,
            says("Both at once.", tool_calls=calls),
            {"role": "tool", "tool_call_id": "2", "content": "A kitchen."},
            {"role": "tool", "tool_call_id": "1", "content": "An egg."},
            says(None, function_call={"name": "stop", "arguments": "{}"}),
            {"role": "function", "name": "stop", "content": "Stopped."},
        )
        assert result.steps == (
            Step('open {"door": "fridge"}', "An egg.", thought="Both at once."),
            Step("look", "A kitchen."),
            Step("stop", "Stopped.", reward=1.0),
        )

    @pytest.mark.parametrize("within", ["result", "output", "content", "observation", "error"])
    def test_a_call_may_hold_its_answer(self, within: str) -> None:
        made = {**call("look", "1", {"at": "shelf"}), within: {"things": ["egg"]}}
        result = read(GOAL, says(None, tool_calls=[made]))
        assert result.steps == (Step('look {"at": "shelf"}', '{"things": ["egg"]}', reward=1.0),)

    def test_blocks_with_calls_and_results_are_read(self) -> None:
        use = {"type": "tool_use", "id": "1", "name": "look", "input": {"at": "shelf"}}
        thought = {"type": "thinking", "thinking": "Eggs are cold."}
        answer = [{"type": "text", "text": "An egg."}]
        back = {"type": "tool_result", "tool_use_id": "1", "content": answer}
        result = read(
            GOAL,
            says([thought, {"type": "text", "text": "Let me look."}, use]),
            {"role": "user", "content": [back]},
        )
        expected = Step(
            'look {"at": "shelf"}', "An egg.", thought="Eggs are cold.\nLet me look.", reward=1.0
        )
        assert result.steps == (expected,)

    @pytest.mark.parametrize("field", ["summary", "content"])
    @pytest.mark.parametrize("role", [{}, {"role": "assistant"}])
    def test_items_of_responses_are_read(self, field: str, role: dict[str, str]) -> None:
        result = read(
            GOAL,
            {"type": "reasoning", field: [{"type": "summary_text", "text": "Eggs are cold."}]},
            {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}", **role},
            {"type": "function_call_output", "call_id": "1", "output": "An egg."},
            {"type": "custom_tool_call", "call_id": "2", "name": "run", "input": "x", **role},
            {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "row"}]},
            {**says([{"type": "output_text", "text": "Done."}]), "type": "message"},
        )
        assert result.steps == (
            Step("", "", thought="Eggs are cold."),
            Step("look", "An egg."),
            Step("run x", '[{"type": "row"}]'),
            Step("Done.", "", reward=1.0),
        )

    @pytest.mark.parametrize(
        "message",
        [says("a", reasoning="b"), says("a", thinking="b", reasoning_content="b"),
         says([{"type": "reasoning", "text": "b"}, {"type": "refusal", "refusal": "a"}]),
         says([{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}], refusal="a"),
         says("a", reasoning="", reasoning_details=[{"type": "reasoning.text", "text": "b"}]),
         says("a", reasoning_details=[{"type": "x", "summary": "b"}, {"data": "ENCRYPTED"}])],
    )  # fmt: skip
    def test_thoughts_are_read_wherever_they_stand(self, message: dict[str, Any]) -> None:
        assert read(GOAL, message).steps == (Step("a", "", thought="b", reward=1.0),)

    @pytest.mark.parametrize(
        ("message", "field"),
        [
            ({"role": "user", "content": [{"type": "image", "source": {}}]}, "content.0"),
            (says([{"type": "redacted_thinking", "data": "x"}]), "content.0"),
            (says(None, audio={"id": "1"}), "audio"),
            ({"role": "user", "content": "x", "images": ["x"]}, "images"),
            (says("a", toolInvocations=[{"toolName": "x"}]), "toolInvocations"),
            (
                {"role": "user", "content": "x", "experimental_attachments": [{"url": "x"}]},
                "experimental_attachments",
            ),
            (says(None, tool_calls=[call("x", "1") | {"images": ["x"]}]), "tool_calls.0.images"),
            ({"role": "user", "content": [{"type": "image", "text": "x"}]}, "content.0"),
            ({"role": "assistant", "type": "web_search_call"}, "type"),
            (says([{"type": "tool_result", "content": "x"}]), "content.0"),
            ({"role": "user", "content": [{"type": "tool_use", "name": "x"}]}, "content.0"),
            ({"content": "x"}, "role"),
            ({"type": "function_call", "arguments": "{}"}, ""),
            ({"type": "function_call_output", "output": [{"type": "input_image"}]}, "output.0"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, message: Any, field: str) -> None:
        place = f"messages.1.{field}".rstrip(".")
        assert f":{place}: " in problem({"messages": [GOAL, message, says("a")]})

    @pytest.mark.parametrize(("name", "value"), [("conversation", [GOAL]), ("images", ["x.png"])])
    def test_what_stands_beside_the_messages_is_named(self, name: str, value: list[Any]) -> None:
        assert f"x.jsonl:1:{name}: " in problem({"messages": [GOAL, says("a")], name: value})

    def test_a_line_may_name_its_environment(self) -> None:
        assert read(GOAL, says("a"), assumed=Assumed(), env="shed").task.env == "shed"

    @pytest.mark.parametrize(
        ("messages", "message"),
        [
            ([], "messages: no message to the agent states the goal"),
            ([GOAL], "messages: has no action"),
            ([GOAL, {"role": "narrator", "content": "x"}], "messages.1.role: Input should be"),
            ([GOAL, says("a", tool_calls=[{"id": "1"}])], "tool_calls.0.function: "),
        ],
    )
    def test_a_recording_that_is_none_is_refused(self, messages: Any, message: str) -> None:
        assert message in problem({"messages": messages})


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_logs_may_hold_the_messages_alone(name: str, tmp_path: Path) -> None:
    messages = [GOAL, says(None, tool_calls=[call("take", "c1")])]
    (tmp_path / name).write_text(json.dumps(messages))
    assert formats.format_of(tmp_path / name) == "chat"
    (made,) = chat.read(tmp_path / name, KITCHEN)
    assert isinstance(made, Trajectory)
    assert (made.task.goal, made.steps[0].action) == ("Heat an egg.", "take")


def test_a_json_file_may_hold_several_episodes(tmp_path: Path) -> None:
    several = [{"messages": [GOAL, says("take egg")]}, {"messages": [GOAL, says("heat egg")]}, 7]
    (tmp_path / "a.json").write_text(json.dumps(several, indent=2))
    assert formats.format_of(tmp_path / "a.json") == "chat"
    *made, wrong = chat.read(tmp_path / "a.json", KITCHEN)
    first = [one.steps[0].action for one in made if isinstance(one, Trajectory)]
    assert first == ["take egg", "heat egg"]
    assert str(wrong).startswith(f"{tmp_path}/a.json:3: ")


@pytest.mark.parametrize(("score", "chosen"), [(None, "boil it"), (1.0, "fry it")])
def test_episodes_without_a_score_are_recalled_and_do_not_vote(
    score: float | None, chosen: str, tmp_path: Path
) -> None:
    assumed, place = replace(KITCHEN, score=score), str(tmp_path)
    ends = [{"role": "user", "content": f"Plate {number} is full."} for number in range(6)]
    tried = [read(GOAL, says("fry it"), end, says("stop"), assumed=assumed) for end in ends[:5]]
    known = read(GOAL, says("boil it"), ends[5], says("stop"))
    build(place, [known, *tried], BagOfWords(), OfflineReasoner)
    with GrowingMemory.open(place, "kitchen", embedder=BagOfWords()) as memory:
        recalls = memory.recall(known.task.goal, known.opening, 2)
    assert {one.tuple.action for one in recalls} == {"boil it", "fry it"}
    assert ("unknown" in recalls.as_prompt(500)) == (score is None)
    rule = relevance_of(inspect(place, "kitchen").rows)
    now = rule.situation(known.task.goal, "heat", (), known.opening)
    assert rule.rank(now, ["boil it", "fry it"]).ranked()[0][0] == chosen

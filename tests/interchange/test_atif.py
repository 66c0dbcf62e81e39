"""ATIF documents: ours keep the format's rules, those of others are read as far as they go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.errors import LdmError
from ldm.interchange import atif
from ldm.records import Problem
from ldm.types import Step, Trajectory
from tests.test_types import TRAJECTORY

SHELL = Assumed(env="shell")
GOAL = {"source": "user", "message": "Count the files."}


def call(name: str, call_id: str = "", **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def results(*contents: Any, **of_calls: Any) -> dict[str, Any]:
    answers = [{"source_call_id": name, "content": text} for name, text in of_calls.items()]
    return {"results": [*({"content": one} for one in contents), *answers]}


def agent(message: str = "", **fields: Any) -> dict[str, Any]:
    return {"source": "agent", "message": message, **fields}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s-1",
        "agent": {"name": "terminal", "version": "2.0"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        **fields,
    }


def read(value: dict[str, Any], assumed: Assumed = SHELL) -> Trajectory:
    result = atif.parse(json.dumps(value), "x.json", 1, assumed)
    assert isinstance(result, Trajectory), result
    return result


def problem(value: dict[str, Any], assumed: Assumed = SHELL) -> str:
    result = atif.parse(json.dumps(value), "x.json", 1, assumed)
    assert isinstance(result, Problem)
    return str(result)


class TestOurs:
    def test_a_reader_sees_goal_opening_actions_thoughts_and_answers(self) -> None:
        turns = atif.document_of(TRAJECTORY)["steps"]
        spoken = [{k: v for k, v in t.items() if k not in ("step_id", "extra")} for t in turns]
        assert spoken == [
            {"source": "user", "message": "heat an egg"},
            {"source": "user", "message": "You are in a kitchen."},
            agent("open fridge", observation=results("You see an egg.")),
            agent("", reasoning_content="The egg is there."),
            agent("take egg", observation=results("You hold an egg.")),
        ]

    def test_the_rules_of_the_format_are_kept(self) -> None:
        """Those that Harbor's own models check, beside the types of the fields."""
        written = atif.document_of(TRAJECTORY)
        assert [turn["step_id"] for turn in written["steps"]] == [1, 2, 3, 4, 5]
        assert written["final_metrics"]["total_steps"] == 5
        assert {"name", "version"} <= written["agent"].keys()
        for turn in written["steps"]:
            assert turn["source"] == "agent" or turn.keys() == {"step_id", "source", "message"}

    def test_what_is_changed_in_the_messages_is_what_is_read(self) -> None:
        written = atif.document_of(TRAJECTORY)
        written["steps"][4]["message"] = "take the egg"
        assert read(written).steps[2] == replace(TRAJECTORY.steps[2], action="take the egg")

    @pytest.mark.parametrize(
        ("step", "change", "message"),
        [
            (0, {"message": "boil an egg"}, "steps.0.message: is not the goal"),
            (1, {"source": "agent"}, "steps.1.source: should be 'user'"),
            (3, {"source": "user"}, "steps.3.source: should be 'agent'"),
            (2, {"extra": {"ldm": {"reward": "much"}}}, "steps.2.extra.ldm.reward: "),
            (2, {"extra": {"ldm": {"prize": 1}}}, "steps.2.extra.ldm.prize: "),
        ],
    )
    def test_a_misfit_is_named(self, step: int, change: dict[str, Any], message: str) -> None:
        written = atif.document_of(TRAJECTORY)
        written["steps"][step] |= change
        assert f"x.json:1:{message}" in problem(written)

    def test_steps_that_lack_the_opening_are_refused(self) -> None:
        written = atif.document_of(TRAJECTORY)
        del written["steps"][1:]
        assert "begin with the goal and the opening" in problem(written)

    def test_a_number_that_is_none_is_refused(self) -> None:
        written = atif.document_of(replace(TRAJECTORY, score=float("nan")))
        assert "extra.ldm.score" in problem(written)


class TestFiles:
    def test_a_json_file_holds_one(self, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="can hold one trajectory, and there are 2") as refused:
            formats.write(tmp_path / "x.json", [TRAJECTORY, TRAJECTORY])
        assert "folder" in refused.value.remedy

    def test_a_folder_with_something_in_it_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "old.json").write_text("{}")
        with pytest.raises(LdmError, match="not an empty folder"):
            formats.write(tmp_path, [TRAJECTORY], "atif")
        assert [path.name for path in tmp_path.iterdir()] == ["old.json"]

    def test_a_byte_order_mark_is_no_matter(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text(json.dumps(atif.document_of(TRAJECTORY)), encoding="utf-8-sig")
        assert list(formats.read(path, "atif")) == [TRAJECTORY]

    @pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"schema_version": "ATIF-v1.7"}'])
    def test_a_damaged_file_is_a_problem(self, text: bytes, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_bytes(text)
        (result,) = formats.read(tmp_path / "x.json", "atif")
        assert isinstance(result, Problem)

    def test_a_file_that_cannot_be_opened_is_named(self, tmp_path: Path) -> None:
        for call_of in (formats.format_of, lambda path: list(atif.read(path))):
            with pytest.raises(LdmError, match=r"none\.json cannot be read"):
                call_of(tmp_path / "none.json")


class TestOthers:
    def test_each_action_of_the_agent_is_a_step_with_its_answer(self) -> None:
        result = read(
            document(
                {"source": "system", "message": "You are a careful agent."},
                GOAL,
                {"source": "user", "message": "You are in /tmp."},
                agent("ls", reasoning_content="Look first.", observation=results("a\nb")),
                agent("submit 2"),
            )
        )
        assert (result.task.goal, result.opening) == ("Count the files.", "You are in /tmp.")
        assert result.steps == (Step("ls", "a\nb", thought="Look first."), Step("submit 2", ""))
        assert (result.task.id, result.task.env, result.task.split) == ("s-1", "shell", "recorded")
        assert (result.score, result.success, result.origin) == (0.0, False, "agent")

    def test_each_call_of_a_tool_is_an_action_with_its_own_answer(self) -> None:
        result = read(
            document(
                GOAL,
                agent(
                    "I look at both.",
                    tool_calls=[call("ls", "1", path="a"), call("pwd", "2")],
                    observation=results(**{"2": "/tmp", "1": "x y"}),
                ),
                {"source": "user", "message": "Go on."},
                agent(tool_calls=[call("done", "1")], observation=results("Bye.")),
            )
        )
        assert result.steps == (
            Step('ls {"path": "a"}', "x y", thought="I look at both."),
            Step("pwd", "/tmp\nGo on."),
            Step("done", "Bye."),
        )

    def test_the_goal_is_also_the_opening_where_nothing_else_was_said(self) -> None:
        assert read(document(GOAL, agent("ls"))).opening == "Count the files."

    def test_parts_that_are_no_text_are_named(self) -> None:
        image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
        parts = [{"type": "text", "text": "A screen:"}, image]
        result = read(document(GOAL, agent("look", observation=results(parts))))
        assert result.steps[0].observation == "A screen:\n[image]"

    def test_what_an_earlier_document_holds_is_left_out(self) -> None:
        copied = agent("ls", is_copied_context=True, observation=results("a"))
        assert [step.action for step in read(document(GOAL, copied, agent("pwd"))).steps] == ["pwd"]

    def test_a_thought_without_an_action_is_a_think_step_and_silence_is_none(self) -> None:
        turns = agent("", reasoning_content="Hm."), agent(" "), agent("ls")
        assert read(document(GOAL, *turns)).steps == (Step("", "", thought="Hm."), Step("ls", ""))

    def test_what_the_document_says_of_itself_comes_before_what_is_assumed(self) -> None:
        described = document(
            GOAL,
            agent("ls"),
            agent={"name": "a", "version": "1", "extra": {"env": "bash", "kind": "count"}},
            extra={"env": "zsh", "split": 3, "score": 1},
        )
        result = read(described, Assumed(split="mine", score=0.5))
        assert (result.task.env, result.task.kind, result.task.split) == ("zsh", "count", "mine")
        assert (result.score, result.success, result.steps[-1].reward) == (1.0, True, 1.0)

    @pytest.mark.parametrize("extra", [{"env": {"PATH": "/bin"}, "score": "high"}, {"score": 7}])
    def test_words_that_others_use_for_something_else_are_passed_over(self, extra: Any) -> None:
        result = read(document(GOAL, agent("ls"), extra=extra))
        assert (result.task.env, result.score) == ("shell", 0.0)

    @pytest.mark.parametrize("number", range(9))
    def test_all_published_versions_are_read(self, number: int) -> None:
        read(document(GOAL, agent("ls"), schema_version=f"ATIF-v1.{number}"))

    def test_another_version_is_recognised_and_refused(self, tmp_path: Path) -> None:
        newer = document(GOAL, agent("ls"), schema_version="ATIF-v2.0")
        assert "x.json:1:schema_version: " in problem(newer)
        assert "a newer ldm may read other versions" in problem(newer)
        (tmp_path / "x.json").write_text(json.dumps(newer))
        assert formats.format_of(tmp_path / "x.json") == "atif"

    @pytest.mark.parametrize(
        ("steps", "message"),
        [
            ([agent("ls")], "steps: no message to the agent states the goal"),
            ([GOAL], "steps: has no action"),
            ([GOAL, agent(reasoning_content="Hm.")], "steps: has no action"),
            ([{"source": "robot", "message": "x"}], "steps.0.source: Input should be"),
            ([GOAL, agent(tool_calls=[{"arguments": {}}])], "tool_calls.0.function_name: "),
        ],
    )
    def test_a_recording_that_is_none_is_refused(self, steps: Any, message: str) -> None:
        assert message in problem(document(*steps))

    def test_without_an_environment_nothing_is_read(self) -> None:
        refused = problem(document(GOAL, agent("ls")), Assumed())
        assert "x.json:1:env: the messages name no environment: name it with `ldm" in refused

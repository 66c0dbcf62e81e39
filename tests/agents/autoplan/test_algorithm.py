"""The optimisation step by step as in the paper (§3.2, Eq. 2 to 9), with a model by script.

What is asked in which order, and what each request shows: P_j is the task, X_i the plan, H the
history, R the reward.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from ldm.agents.autoplan.optimiser import AttemptSetup, AutoPlanSettings, draw
from ldm.agents.autoplan.plans import Experience, Iteration
from ldm.llm import Message, Sampling
from ldm.runs import Manifest, create
from tests.agents import washer
from tests.agents.autoplan.optimising import optimise
from tests.agents.scripted import Scripted
from tests.toy import ToyEnv

SETTINGS = AutoPlanSettings(iterations=2, batch=2, steps=9)
POOL = [task for task in ToyEnv().tasks("train") if task.kind == "wash"]


@dataclass(frozen=True)
class Call:
    """A request: what it asks for, its texts, and the reply."""

    what: str
    messages: tuple[Message, ...]
    sampling: Sampling
    reply: str

    @property
    def contents(self) -> list[str]:
        return [message.content for message in self.messages]

    @property
    def content(self) -> str:
        return "\n".join(self.contents)

    def block(self, tag: str) -> str:
        return washer.block(tag, self.contents)


@dataclass
class Scribe:
    """The washer, with a word of its own in every reply but actions: one sees where it goes.

    Its last action is in no form of the grammar.
    """

    calls: list[Call] = field(default_factory=list)

    def __call__(self, messages: Sequence[Message], sampling: Sampling) -> str:
        contents = [message.content for message in messages]
        what = washer.kind_of(contents)
        word = f"{what}-{sum(call.what == what for call in self.calls)}"
        reply = washer.answer(contents)
        if what == "plan":
            reply = reply.replace("the fruit", f"the fruit ({word})")
        elif what == "formalised":
            reply = reply.replace("let us ", "")
        elif what == "action":
            reply = reply.replace("put", "let us put")
        else:
            reply = f"{reply} {word}"
        self.calls.append(Call(what, tuple(messages), sampling, reply))
        return reply


@dataclass(frozen=True)
class Shed:
    llm: Scripted

    def __call__(self) -> AttemptSetup:
        return AttemptSetup(ToyEnv(), self.llm, self.llm, SETTINGS)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Iteration], list[Call]]:
    """The optimisation: the plan X_2, how it came about, and all calls."""
    scribe = Scribe()
    directory: Path = tmp_path_factory.mktemp("runs")
    run = create(directory, ("autoplan",), Manifest("autoplan", {}, {}))
    plan, history = optimise(run, Shed(Scripted(scribe)), POOL, SETTINGS)
    return plan, history, scribe.calls


Played = tuple[str, list[Iteration], list[Call]]


def attempts(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls of each attempt, its reflection included, in their order."""
    parts: list[list[Call]] = [[]]
    for call in calls:
        if call.what == "plan":
            continue
        if parts[-1] and parts[-1][-1].what == "revision":
            parts.append([])
        parts[-1].append(call)
    return parts


def of(calls: Sequence[Call], *what: str) -> list[Call]:
    return [call for call in calls if call.what in what]


def test_calls_come_in_the_order_of_the_paper(played: Played) -> None:
    _, history, calls = played
    order = "".join({"formalised": "f"}.get(c.what, c.what[0].upper()) for c in calls)
    # A step is thought, action and, where the form does not tell, the formaliser; an attempt ends
    # with Summary, Flaw and Revision; a batch of two with a new Plan.
    attempt = r"(?:TAf?)+SFR"
    assert re.fullmatch(rf"(?:{attempt}{attempt}P){{2}}", order), order
    steps = [len(e.said) for one in history for e in one.experiences]
    assert [len(of(part, "thought")) for part in attempts(calls)] == steps


def test_it_starts_with_an_empty_plan_and_each_batch_follows_the_newest(played: Played) -> None:
    plan, history, calls = played
    replies = [call.reply for call in of(calls, "plan")]
    assert [one.plan for one in history] == ["", replies[0]]
    assert plan == replies[1]
    batches = [list(group) for key, group in groupby(calls, lambda c: c.what == "plan") if not key]
    for batch, followed in zip(batches, ["", replies[0]], strict=True):
        assert {c.block("plan") for c in of(batch, "thought", "action", "summary")} == {followed}
    assert [one.success for one in history] == [0, 1]


def test_batches_are_drawn_from_the_pool(played: Played) -> None:
    _, history, _ = played
    for number, one in enumerate(history):
        tasks = [e.result.task for e in one.experiences]
        assert tasks == draw(POOL, SETTINGS, 0, number)


def test_a_thought_follows_from_task_plan_and_history(played: Played) -> None:
    """Eq. 2."""
    _, history, calls = played
    for part, one in zip(attempts(calls), experiences(history), strict=True):
        assert one.trajectory is not None
        for number, call in enumerate(of(part, "thought")):
            lines = call.block("so-far").splitlines()
            assert call.block("task") == one.result.task.goal
            assert lines[0] == f"Observation: {one.trajectory.opening}"
            past = [
                line
                for step in one.trajectory.steps[:number]
                for line in (
                    f"Think: {step.thought}",
                    f"Act: {step.action}",
                    f"Observation: {step.observation}",
                )
            ]
            assert lines[1:] == past


def test_an_action_follows_from_the_thought_too(played: Played) -> None:
    """Eq. 3."""
    _, _, calls = played
    pairs = zip(of(calls, "thought"), of(calls, "action"), strict=True)
    for thought, action in pairs:
        assert action.block("so-far") == f"{thought.block('so-far')}\n{thought.reply}"
        assert action.block("plan") == thought.block("plan")


def test_the_formaliser_is_asked_with_the_action_alone(played: Played) -> None:
    """Eq. 4 and App. A.1; only for what is in no form of the grammar."""
    _, history, calls = played
    formalised = of(calls, "formalised")
    assert formalised
    for call in formalised:
        # "wash FRUIT (at the sink)" is how the toy writes that form.
        assert call.block("said").startswith(("let us put", "wash "))
        assert not call.block("plan")
        assert not call.block("task")
    done = [s.action for e in experiences(history) if e.trajectory for s in e.trajectory.steps]
    assert not [action for action in done if action.startswith("let us")]


def experiences(history: Sequence[Iteration]) -> list[Experience]:
    return [one for iteration in history for one in iteration.experiences]


def test_the_reflection_looks_at_history_and_reward(played: Played) -> None:
    """Eq. 6 to 8: neither flaw nor revision sees the summary, the revision sees the flaw."""
    _, history, calls = played
    for part, one in zip(attempts(calls), experiences(history), strict=True):
        summary, flaw, revision = of(part, "summary", "flaw", "revision")
        for call in (summary, flaw, revision):
            trace = call.block("attempt")
            assert trace.count("Act: ") == len(one.said)
            assert all(thought.reply in trace for thought in of(part, "thought"))
            assert call.block("task") == one.result.task.goal
            reward = "was accomplished" if one.result.success else "was not accomplished"
            assert f"The task {reward}" in call.content
        assert summary.reply not in flaw.content
        assert summary.reply not in revision.content
        assert revision.messages[: len(flaw.messages)] == flaw.messages
        assert [m.content for m in revision.messages[len(flaw.messages) : -1]] == [flaw.reply]
        sentences = (one.reflection.summary, one.reflection.flaw, one.reflection.revision)
        assert sentences == (summary.reply, flaw.reply, revision.reply)


def test_no_reward_is_seen_before_the_reflection(played: Played) -> None:
    _, _, calls = played
    acting = of(calls, "thought", "action", "formalised")
    assert not [c for c in acting if "accomplished" in c.content or "reward" in c.content.lower()]


def test_the_plan_is_rewritten_from_plan_tasks_and_reflections(played: Played) -> None:
    """Eq. 9."""
    _, history, calls = played
    for call, one in zip(of(calls, "plan"), history, strict=True):
        assert call.block("plan") == one.plan
        assert call.content.count("<attempt>\n") == len(one.experiences)
        for e in one.experiences:
            parts = (e.reflection.summary, e.reflection.flaw, e.reflection.revision)
            assert all(text in call.content for text in (e.result.task.goal, *parts))
        results = ["not " * (not e.result.success) for e in one.experiences]
        for number, result in enumerate(results, 1):
            assert f"Attempt {number}, {result}accomplished:" in call.content
        assert "Observation:" not in call.content


def test_everything_is_sampled_from_the_nucleus(played: Played) -> None:
    """§4.2."""
    _, _, calls = played
    assert {(c.sampling.temperature, c.sampling.top_p) for c in calls} == {(1.0, 0.9)}


def test_no_request_tells_the_rules_of_the_world(played: Played) -> None:
    _, _, calls = played
    assert not [call for call in calls if ToyEnv().card.rules in call.content]

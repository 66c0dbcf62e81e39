"""`ldm autoplan` on questions: one plan for all kinds, and reflections that see the solution."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.agents.autoplan.plans import read
from tests.agents.reader import PLAN, known
from tests.agents.reader import reply as reply  # noqa: PLC0414 - the server says it
from tests.cli.conftest import run
from tests.llm.server import FakeServer

pytestmark = pytest.mark.usefixtures("place", "server")

BRIEF = ("--iterations", "2", "--batch", "3", "--workers", "1", "--llm", "reader")
AUTOPLAN = ("autoplan", "--env", "hotpotqa", "--kind", "all", *BRIEF)


def text(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def only_reflections_are_shown_the_solution(server: FakeServer) -> None:
    requests = [text(body) for body in server.bodies]
    reflections = [one for one in requests if "You look back at an attempt" in one]
    assert len(reflections) == 2 * 3 * 3
    for request in reflections:
        goal = request.partition("<task>\n")[2].partition("\n</task>")[0]
        question = known()[goal]
        assert f'The answer is "{question.answer}".' in request
        assert all(f'"{title}"' in request for title in question.titles)
    others = [one for one in requests if "<so-far>" in one]
    assert others
    assert not [request for request in others if "The answer is" in request]


def test_one_plan_for_all_kinds_is_made_and_evaluated(server: FakeServer) -> None:
    outcome = run(*AUTOPLAN, "--split", "demo_train", "--eval", "demo_test", "--limit", "6").done()
    plan = read(Path("plans/hotpotqa-all.json"))
    assert (plan.kind, plan.plan, plan.solutions) == ("all", PLAN, True)
    assert [one.success for one in plan.iterations] == [0, 1]
    assert {e.result.task.kind for one in plan.iterations for e in one.experiences} > {"bridge"}
    # What was published for it (§4.2, §4.1).
    assert (plan.settings["steps"], plan.settings["pool"], len(plan.pool)) == ("10", "50", 50)
    only_reflections_are_shown_the_solution(server)
    assert "Evaluated on 6 tasks of demo_test." in outcome.out
    for column in ("bridge", "comparison"):
        assert column in outcome.out
    command = ("eval", "--env", "hotpotqa", "--agent", "autoplan", "--llm", "reader")
    evaluated = json.loads(run(*command, "--agent.plans", "plans", "--limit", "4", "--json").out)
    assert (evaluated["split"], evaluated["success_rate"]) == ("demo_test", 1)
    learnt = ("--split", "demo_train", "--tasks", plan.pool[0], "--agent.plans", "plans")
    run(*command, *learnt).refused("of the plans of autoplan")

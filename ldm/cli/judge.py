"""`ldm judge`: what a language model says of the answers of a finished evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.completing import runs_below
from ldm.cli.environment import runtime as command_runtime
from ldm.cli.options import AsJson, Calls, LlmName, RunsFrom, expanded

if TYPE_CHECKING:
    from ldm.run.judged import JudgedRun


@dataclass(frozen=True)
class Judging:
    """Which run is judged, by which model, and what is printed."""

    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Directory or id of a finished evaluation.",
            autocompletion=runs_below,
        ),
    ]
    llm: LlmName = None
    as_json: AsJson = False
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the maximum cost, then stop.")
    ] = False
    where: RunsFrom = field(default_factory=RunsFrom)
    calls: Calls = field(default_factory=Calls)


@expanded
def judge(judging: Judging) -> None:
    """Let a model judge whether the answers of a run match the correct ones in meaning.

    Successful answers need no call. The verdicts go to judged.jsonl in the run's directory and are
    shown beside the success rate; they change no score. A model judge does not replace the human
    evaluation that papers report. Each answer is paid for once.

    \b
    Examples:
      ldm judge runs/hotpotqa-dev_hard-react-20261121-101530-ab12 --llm MODEL
      ldm judge RUN --llm MODEL --estimate
    """
    from ldm.run import judging as experiment

    runtime = command_runtime(judging.where.runs, trust=judging.where.trust)
    models = judging.calls.options(llm=judging.llm)
    if judging.estimate:
        output.say_all(experiment.estimate(judging.name, models=models, runtime=runtime))
        return
    _show(experiment.judge_run(judging.name, models=models, runtime=runtime), judging.as_json)


def _show(judged: JudgedRun, as_json: bool) -> None:
    from ldm.run.results import percent, span

    success, same = judged.intervals()
    rows = [
        ("success in the environment", percent(judged.success_rate), span(success)),
        (f"model judge ({judged.model})", percent(judged.rate), span(same)),
    ]
    columns = ("measure", "rate", "95 % interval")
    output.print_table(f"{len(judged.verdicts)} episodes", columns, rows, error=as_json)
    output.say_all(judged.lines(), error=as_json)
    if as_json:
        output.print_json(judged.as_json())

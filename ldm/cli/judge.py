"""`ldm judge`: let a language model judge the answers of a finished evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ldm.cli import output
from ldm.cli.options import Given, Models, Recording, offers
from ldm.config import MODELS_SECTION, NO_OPTIONS, Option, SectionField, Spec

if TYPE_CHECKING:
    from ldm.run.judged import JudgedRun


@dataclass(frozen=True)
class Judging(Spec):
    """The run to judge, and the judging model."""

    name: Annotated[
        str,
        Option("Directory or id of a finished evaluation.", argument="RUN"),
    ] = ""
    models: Annotated[SectionField, MODELS_SECTION] = NO_OPTIONS


@offers(Judging, Models, Recording)
def judge(**values: Any) -> None:
    """Let a model judge whether the answers of a run match the correct ones in meaning.

    Successful answers need no call. The verdicts go to judged.jsonl in the run's directory and are
    shown beside the success rate; they change no score. A model judge does not replace the human
    evaluation that papers report. Each answer is paid for once.

    \b
    Examples:
      ldm judge runs/hotpotqa-dev_hard-react-20261121-101530-ab12 --llm MODEL
      ldm judge RUN --llm MODEL --max-usd 1
    """
    from ldm.run.judged import judge_run

    given = Given(judge, values)
    judging, recording = given.group(Judging), given.group(Recording)
    judged = judge_run(judging.name, given.models(), runtime=recording.runtime())
    _show(judged, recording.as_json)


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

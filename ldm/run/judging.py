"""The model judge: whether answers mean what the right ones mean, asked of a language model.

It says something of a finished evaluation beside its scores. It is no reward, no agent sees it, and
it is not part of what makes runs comparable. Nor is it the human judgement that papers report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ldm.errors import LdmError, RunStopped
from ldm.llm.estimate import bound_lines, reply_requests
from ldm.llm.models import ModelOptions, listed, serving
from ldm.run.builders import build_environment
from ldm.run.judged import JUDGED, By, Judged, JudgedRun
from ldm.run.lifecycle import recorded_spec
from ldm.run.runtime import Runtime
from ldm.run.specs import EvaluationSpec
from ldm.types import Answer

if TYPE_CHECKING:
    from ldm.llm import LLM, Message
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Trajectory

#: In the directory of the run that is judged: the folder of the model's calls.
CALLS = "judge"
#: Tokens of a verdict at most.
LENGTH = 60


@dataclass(frozen=True, slots=True)
class Same:
    """The reply that is asked for."""

    same: bool


def judge_run(name: str, *, models: ModelOptions, runtime: Runtime | None = None) -> JudgedRun:
    """Let a model judge the answers of a finished evaluation, by directory or id.

    The verdicts go into the run's directory, and what the model was asked into a folder there: an
    answer is paid for once. Raises LdmError where the run is not finished or not of answers, where
    no model is named, and RunStopped, after which the same call goes on.
    """
    from ldm import records
    from ldm.parallel import map_concurrently
    from ldm.runs import writing

    runtime = runtime or Runtime()
    model = _model(models)
    run, pairs = _answers(name, runtime)
    if not models.replay:
        runtime.message(
            f"Model judge at {runtime.connection().display_url}: {listed({'llm': model})}."
        )
    directory = run.directory / CALLS
    with run.lock():
        with writing(directory):
            directory.mkdir(exist_ok=True)
        try:
            with serving(
                models, runtime.connection, directory, runtime.message, " for judging"
            ) as open_models:
                llm = open_models.get("llm") if any(map(_to_ask, pairs)) else None
                verdicts = map_concurrently(
                    lambda pair: _judged(*pair, llm, model), pairs, models.in_flight
                )
        except RunStopped as error:
            message = f"{error.message} What was answered is recorded in {directory}."
            go_on = f"Resume with `ldm judge {run.directory}`."
            raise type(error)(message, f"{error.remedy} {go_on}") from error
        with writing(run.directory / JUDGED):
            records.write(run.directory / JUDGED, verdicts)
    return JudgedRun(run, model, tuple(verdicts))


def estimate(name: str, *, models: ModelOptions, runtime: Runtime) -> Iterator[str]:
    """Yield lines on what judging a run costs at most; nothing is sent."""
    model = _model(models)
    _, pairs = _answers(name, runtime)
    requests = [
        request
        for pair in filter(_to_ask, pairs)
        if pair[1] is not None
        for request in reply_requests(model, _messages(pair[1]), Same, LENGTH)
    ]
    yield from bound_lines(requests, models)


def _model(models: ModelOptions) -> str:
    """Return the judge's name. Raises LdmError where none is named."""
    from ldm.agents import NO_MODEL

    if not models.configured:
        raise LdmError("A model judge needs an LLM, and none is configured.", NO_MODEL)
    return models.of(("llm",))["llm"]


def _answers(name: str, runtime: Runtime) -> tuple[Run, list[tuple[EpisodeResult, Answer | None]]]:
    """Return a finished evaluation and the answer of each of its episodes.

    Raises LdmError where there is none, or where its environment asks no questions.
    """
    from ldm import records
    from ldm.episode import EnvironmentBase
    from ldm.run.runner import TRAJECTORIES, results
    from ldm.types import Trajectory

    run, spec = recorded_spec(name, EvaluationSpec, runtime.runs, trust=runtime.trust)
    episodes = results(run)
    trials: dict[str, list[Trajectory]] = {}
    for trajectory in records.read(run.directory / TRAJECTORIES, Trajectory):
        trials.setdefault(trajectory.task.id, []).append(trajectory)
    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        if type(env).answer is EnvironmentBase.answer:
            raise LdmError(
                f"{run.directory} has no answers to judge: tasks of {spec.env} are no questions.",
                "A model judge is for environments with a method answer(trajectory).",
            )
        env.tasks(spec.split)
        return run, [
            (
                episode,
                None
                if not 0 <= episode.submitted < len(known)
                else env.answer(known[episode.submitted]),
            )
            for episode in episodes
            for known in [trials.get(episode.task.id, [])]
        ]


def _to_ask(pair: tuple[EpisodeResult, Answer | None]) -> bool:
    result, answer = pair
    return answer is not None and not result.success


def _judged(result: EpisodeResult, answer: Answer | None, llm: LLM | None, model: str) -> Judged:
    by: By = "success" if result.success else "no answer"
    same = result.success
    if llm is not None and answer is not None and not result.success:
        completion = llm.complete(_messages(answer), schema=Same, max_tokens=LENGTH)
        by = "unusable reply" if completion.malformed else "model judge"
        same = not completion.malformed and completion.value.same
    return Judged(result.task.id, answer, result.success, same, by, model)


def _messages(answer: Answer) -> Sequence[Message]:
    from ldm.prompts import render

    return render("judge", **asdict(answer))

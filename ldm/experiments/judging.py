"""The model judge: whether answers mean what the right ones mean, asked of a language model.

It says something of a finished evaluation beside its scores. It is no reward, no agent sees it, and
it is not part of what makes runs comparable. Nor is it the human judgement that papers report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ldm.errors import LdmError, RunStopped
from ldm.experiments.builders import build_environment
from ldm.experiments.lifecycle import recorded_spec
from ldm.experiments.runtime import Runtime
from ldm.experiments.specs import EvaluationSpec
from ldm.llm.estimate import bound_lines, reply_requests
from ldm.llm.models import ModelOptions, listed, serving
from ldm.types import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ldm.eval.statistics import Interval
    from ldm.llm import LLM, Message
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Trajectory

#: In the directory of the run that is judged: the verdicts, and the folder of the model's calls.
JUDGED, CALLS = "judged.jsonl", "judge"
#: Tokens of a verdict at most.
LENGTH = 60

By = Literal["success", "model judge", "no answer", "unusable reply"]


@dataclass(frozen=True, slots=True)
class Same:
    """The reply that is asked for."""

    same: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one episode: whether its answer means the same as the right one.

    answer: None where none was given. success: in the environment. by: how the verdict came about;
    what succeeded is the same without a call, and without an answer, or a usable reply, nothing is.
    model: the judge.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    task: str
    answer: Answer | None
    success: bool
    same: bool
    by: By
    model: str


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """All verdicts on a run."""

    run: Run
    model: str
    verdicts: tuple[Judged, ...]

    @property
    def rate(self) -> float:
        """The share of answers that mean the same as the right ones."""
        return sum(one.same for one in self.verdicts) / len(self.verdicts)

    @property
    def success_rate(self) -> float:
        return sum(one.success for one in self.verdicts) / len(self.verdicts)

    @property
    def agreement(self) -> float:
        """The share of episodes where verdict and success agree."""
        return sum(one.same == one.success for one in self.verdicts) / len(self.verdicts)

    def counts(self) -> Mapping[str, int]:
        """Return how the verdicts came about."""
        return Counter(one.by for one in self.verdicts)

    def intervals(self) -> tuple[Interval, Interval]:
        """Return the 95 % intervals of the success rate and of the judge's."""
        from ldm.eval.statistics import rate_interval

        seed = self.run.manifest.seeds.get("seed", 0)
        outcomes = zip(*((one.success, one.same) for one in self.verdicts), strict=True)
        success, same = (
            rate_interval([float(x) for x in values], seed=seed) for values in outcomes
        )
        return success, same

    def lines(self) -> Iterator[str]:
        """Yield what to know beside the rates."""
        more = sum(one.same and not one.success for one in self.verdicts)
        count, by = len(self.verdicts), self.counts()
        yield (
            f"Agreement on {round(self.agreement * count)} of {count} "
            f"({100 * self.agreement:.1f} %): the model judge accepts {more} further answers."
        )
        yield (
            f"{by.get('model judge', 0)} answers were put to {self.model}; "
            f"{by.get('success', 0)} succeeded and count as the same without a call, "
            f"{by.get('no answer', 0)} episodes gave no answer."
        )
        if unusable := by.get("unusable reply", 0):
            yield f"{unusable} replies could not be used and count as not the same."
        yield "A model judge is not the human judgement that papers report."
        yield f"Verdicts: {self.run.directory / JUDGED}"

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; rates in [0, 1]."""
        success, same = self.intervals()
        return {
            "run": str(self.run.directory),
            "model_judge": self.model,
            "episodes": len(self.verdicts),
            "success_rate": self.success_rate,
            "interval": success,
            "judged_rate": self.rate,
            "judged_interval": same,
            "agreement": self.agreement,
            "by": dict(self.counts()),
        }


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
        runtime.message(f"Model judge at {runtime.connection().shown}: {listed({'llm': model})}.")
    directory = run.directory / CALLS
    with run.lock():
        with writing(directory):
            directory.mkdir(exist_ok=True)
        try:
            with serving(
                models, runtime.connection, directory, runtime.message, " for judging"
            ) as open_models:
                asked = open_models.get("llm") if any(map(_to_ask, pairs)) else None
                verdicts = map_concurrently(
                    lambda pair: _judged(*pair, asked, model), pairs, models.in_flight
                )
        except RunStopped as error:
            message = f"{error.message} What was answered is recorded in {directory}."
            go_on = f"Go on with `ldm judge {run.directory}`."
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
        raise LdmError("A model judge needs a language model, and none is configured.", NO_MODEL)
    return models.of(("llm",))["llm"]


def _answers(name: str, runtime: Runtime) -> tuple[Run, list[tuple[EpisodeResult, Answer | None]]]:
    """Return a finished evaluation and the answer of each of its episodes.

    Raises LdmError where there is none, or where its environment asks no questions.
    """
    from ldm import records
    from ldm.eval import results
    from ldm.eval.runner import TRAJECTORIES
    from ldm.types import Trajectory

    run, spec = recorded_spec(name, EvaluationSpec, runtime.runs, trust=runtime.trust)
    episodes = results(run)
    trials: dict[str, list[Trajectory]] = {}
    for trajectory in records.read(run.directory / TRAJECTORIES, Trajectory):
        trials.setdefault(trajectory.task.id, []).append(trajectory)
    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        answer = getattr(env, "answer", None)
        if answer is None:
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
                else answer(known[episode.submitted]),
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

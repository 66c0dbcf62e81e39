"""The model judge: a language model decides whether answers mean the same as the correct ones.

Its verdicts are shown beside the scores of a finished evaluation. They are not a reward, no agent
sees them, they are not part of the protocol, and not the human judgement that papers report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ldm import records
from ldm.config import Evaluate, Section
from ldm.errors import LdmError
from ldm.llm.models import ModelOptions, listed
from ldm.records import writing
from ldm.run.builders import Builder, build_environment
from ldm.run.engine import Experiment, Member, Session, recorded_spec
from ldm.run.runner import results, trials
from ldm.run.runtime import Runtime
from ldm.run.statistics import Interval, rate_interval
from ldm.runs import Run
from ldm.types import Answer

if TYPE_CHECKING:
    from ldm.llm import LLM, Message
    from ldm.llm.models import Models
    from ldm.types import EpisodeResult

#: The file of verdicts in the judged run's directory.
JUDGED = "judged.jsonl"

By = Literal["success", "model judge", "no answer", "unusable reply"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one episode: whether its answer means the same as the correct one.

    answer: None if none was given. success: in the environment. by: the source of the verdict; a
    success is the same without a call, and an episode without an answer or a usable reply is not.
    model: the judge. index: the place of the episode in its run.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    task: str
    answer: Answer | None
    success: bool
    same: bool
    by: By
    model: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """All verdicts on a run."""

    run: Run
    model: str
    verdicts: tuple[Judged, ...]

    @property
    def rate(self) -> float:
        """The share of answers that mean the same as the correct ones."""
        return sum(one.same for one in self.verdicts) / len(self.verdicts)

    @property
    def success_rate(self) -> float:
        return sum(one.success for one in self.verdicts) / len(self.verdicts)

    @property
    def agreement(self) -> float:
        """The share of episodes where verdict and success agree."""
        return sum(one.same == one.success for one in self.verdicts) / len(self.verdicts)

    def counts(self) -> Mapping[str, int]:
        """Return the number of verdicts by their source."""
        return Counter(one.by for one in self.verdicts)

    def intervals(self) -> tuple[Interval, Interval]:
        """Return the 95 % intervals of the success rate and of the judge's."""
        seed = self.run.manifest.seeds.get("seed", 0)
        outcomes = zip(*((one.success, one.same) for one in self.verdicts), strict=True)
        success, same = (
            rate_interval([float(x) for x in values], seed=seed) for values in outcomes
        )
        return success, same

    def lines(self) -> Iterator[str]:
        """Yield remarks on the rates."""
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


#: The folder of the model's calls in the judged run's directory.
CALLS = "judge"
#: Maximum tokens of a verdict.
LENGTH = 60

#: An episode's result, and its answer if it gave one.
Pair = tuple["EpisodeResult", "Answer | None"]


@dataclass(frozen=True, slots=True)
class Same:
    """Describe the reply."""

    same: bool


class JudgeBuilder(Builder[Evaluate]):
    """Build the model that judges; there is no environment."""

    def __call__(self, models: Models | None = None) -> LLM:
        assert models is not None  # noqa: S101 - a judgement always calls one
        return models.get("llm")


class Judge:
    """Judge episodes, and ask the model about answers without success; a judgement's worker."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, item: tuple[int, EpisodeResult, Answer | None]) -> Judged:
        index, result, answer = item
        same = result.success
        by: By = "success" if same else "no answer"
        if answer is not None and not result.success:
            reply = self._llm.complete(_messages(answer), schema=Same, max_tokens=LENGTH)
            same = not reply.malformed and reply.value.same
            by = "unusable reply" if reply.malformed else "model judge"
        return Judged(result.task.id, answer, result.success, same, by, self._llm.name, index)

    def close(self) -> None:
        """Do nothing: the engine closes the model."""


@dataclass(frozen=True, kw_only=True)
class Judgement(Experiment[Evaluate, JudgedRun, JudgedRun]):
    """Judge an evaluation; the calls are recorded in a folder of its own directory.

    judged: the evaluation. pairs: its episodes. model: the judge's name.
    """

    judged: Run
    pairs: tuple[Pair, ...]
    model: str

    builder = JudgeBuilder
    worker = Judge
    record = Judged
    file = JUDGED
    costs = " for judging"

    def roles(self, member: Member[Evaluate]) -> tuple[str, ...]:
        return ("llm",)

    def finished(self, run: Run) -> None:
        """Return None: an evaluation may be judged again, which costs nothing twice."""

    def items(self, member: Member[Evaluate], session: Session) -> list[tuple[Any, ...]]:
        """Return the episodes with their places and answers."""
        return [(index, *pair) for index, pair in enumerate(self.pairs)]

    def keep(self, member: Member[Evaluate], items: Any, known: Sequence[Judged]) -> None:
        path = self.judged.directory / JUDGED
        with writing(path):
            records.write(path, known)

    def finish(
        self, member: Member[Evaluate], session: Session, known: Sequence[Judged]
    ) -> JudgedRun:
        return JudgedRun(self.judged, self.model, tuple(known))

    def result(self, outcomes: Sequence[JudgedRun]) -> JudgedRun:
        return outcomes[0]


def judge_run(
    name: str, models: Section | Mapping[str, Any] | str, *, runtime: Runtime | None = None
) -> JudgedRun:
    """Let a model judge the answers of a finished evaluation, by directory or id.

    models: options of `ModelOptions`, such as {"llm": "gpt-4o-mini", "max_usd": 1}.
    The verdicts go into the run's directory, and the model's calls into a folder there: an answer
    is paid for once. Raises LdmError if the run is not finished or has no answers, or if no
    model is named, and RunStopped, after which the same call resumes it.
    """
    runtime, section = runtime or Runtime(), Section.read(models)
    options = section.typed(ModelOptions, "models")
    model = _model(options)
    run, spec, pairs = _answers(name, runtime)
    if not options.replay:
        runtime.message(
            f"Model judge at {runtime.connection().display_url}: {listed({'llm': model})}."
        )
    calls = replace(run, directory=run.directory / CALLS)
    with writing(calls.directory):
        calls.directory.mkdir(exist_ok=True)
    member = Member(replace(spec, models=section), (), started=calls)
    return Judgement(
        members=(member,),
        runtime=runtime,
        resume_with=f"ldm judge {run.directory}",
        judged=run,
        pairs=tuple(pairs),
        model=model,
    ).play()


def _model(models: ModelOptions) -> str:
    """Return the judge's name. Raises LdmError if none is named."""
    from ldm.agents import NO_MODEL

    if not models.configured:
        raise LdmError("A model judge needs an LLM, and none is configured.", NO_MODEL)
    return models.of(("llm",))["llm"]


def _answers(name: str, runtime: Runtime) -> tuple[Run, Evaluate, list[Pair]]:
    """Return a finished evaluation, its spec, and its episodes with their answers.

    Raises LdmError if there is no such run, or if its environment asks no questions.
    """
    from ldm.episode import EnvironmentBase

    run, spec = recorded_spec(name, Evaluate, runtime.runs, trust=runtime.trust)
    episodes, known = results(run), trials(run)
    with closing(build_environment(spec.env, runtime.cache)) as env:
        if type(env).answer is EnvironmentBase.answer:
            raise LdmError(
                f"{run.directory} has no answers to judge: {spec.env.name} asks no questions.",
                "A model judge is for environments with a method answer(trajectory).",
            )
        env.tasks(spec.split)
        pairs: list[Pair] = []
        for episode in episodes:
            own = known.get(episode.task.id, [])
            given = 0 <= episode.submitted < len(own)
            pairs.append((episode, env.answer(own[episode.submitted]) if given else None))
        return run, spec, pairs


def _messages(answer: Answer) -> Sequence[Message]:
    from ldm.prompts import render

    return render("judge", **asdict(answer))

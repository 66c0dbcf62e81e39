"""Options that several commands share: declared once, expanded into each command's signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from ldm import untrusted
from ldm.cli.environment import runtime
from ldm.errors import LdmError
from ldm.experiments.runtime import DEFAULT_RUNS, Runtime
from ldm.experiments.specs import DEFAULT_MEMORY
from ldm.llm.models import CONCURRENCY, ModelOptions
from ldm.options import ENV_PREFIX, Settings, settings, sorted_settings

C = TypeVar("C", bound=Callable[..., None])


def expanded(command: C) -> C:
    """Expand parameters whose type is a dataclass of options into one parameter a field.

    Typer sees the fields, in their order; the command is called with the dataclasses. A field may
    be such a dataclass itself.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters

    @functools.wraps(command)
    def call(**values: Any) -> None:
        command(**{name: _collected(hints[name], values, name) for name in parameters})

    listed = [p for name in parameters for p in _parameters(hints[name], parameters[name])]
    call.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
    return call  # type: ignore[return-value]


def _parameters(hint: Any, parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not is_dataclass(hint):
        yield parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(hint, include_extras=True)
    for one in fields(hint):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        plain = inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default)
        yield from _parameters(hints[one.name], plain)


def _collected(hint: Any, values: Mapping[str, Any], name: str) -> Any:
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return values[name]
    hints = get_type_hints(hint)
    return hint(**{one.name: _collected(hints[one.name], values, one.name) for one in fields(hint)})


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Agent option; env.NAME=VALUE: environment."),
]
EmbedderName = Annotated[
    str | None, typer.Option("--embedder", help="wordllama, or a sentence-transformers model.")
]
MemoryAt = Annotated[
    str, typer.Option("--memory", help="A directory, or http://host:port of a Chroma server.")
]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="As a paper did it: ldm2, or a file of yours."),
]
MemoryDefault = Annotated[str | None, typer.Option(help=f"Memory; default {DEFAULT_MEMORY}.")]
BundledEmbedder = Annotated[str | None, typer.Option(help="Embedder; default: the bundled one.")]
Seed = Annotated[int | None, typer.Option(help="Of everything drawn at random.")]
Kinds = Annotated[str | None, typer.Option(help="Only these task kinds: heat,cool.")]
RunsAt = Annotated[Path, typer.Option("--runs", help="Folder in which runs are recorded.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import modules that recorded runs name. Runs their code.")
]
Resume = Annotated[str | None, typer.Option(help="Go on with this run (directory or id).")]
Data = Annotated[Path | None, typer.Option(help="The environment's data.")]
LlmName = Annotated[
    str | None, typer.Option("--llm", envvar="LDM_LLM", help="Language model that agents use.")
]
PlannerName = Annotated[
    str | None,
    typer.Option("--planner-llm", envvar="LDM_PLANNER_LLM", help="Model for planning; else --llm."),
]
ReasonerName = Annotated[
    str | None,
    typer.Option(
        "--reasoner-llm",
        envvar="LDM_REASONER_LLM",
        help="Model for LDM²'s reasoner; else --llm. Without either the offline one decides.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, help=f"Model requests in flight at most; default {CONCURRENCY}."),
]
EstimateFirst = Annotated[
    bool, typer.Option("--estimate", help="Say what it will cost, from a small part of it; stop.")
]


@dataclass(frozen=True)
class Decisions:
    """How LDM² decides (`ldm.policy.PolicyOptions`), and what an environment shows."""

    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, help="Tuples recalled, with a vote: shown; default 5, offline 60."
        ),
    ] = None
    history: Annotated[
        Literal["full", "summary", "actions", "none"] | None,
        typer.Option(help="What of the history a decision sees. Default: full."),
    ] = None
    rank_history: Annotated[
        bool | None,
        typer.Option(
            "--rank-history/--no-rank-history",
            help="Rank tuples by their history, too, if it has words.",
        ),
    ] = None
    recall: Annotated[
        Literal["similarity", "utility"] | None,
        typer.Option(help="Rank tuples by their utility, too, if learnt. Default: similarity."),
    ] = None
    candidates: Annotated[
        Literal["none", "vote"] | None,
        typer.Option(help="Show the model what the recalls vote for. Default: none."),
    ] = None
    index: Annotated[
        Literal["embedding", "llm"] | None,
        typer.Option(help="Who finds a state's types in the indices. Default: embedding."),
    ] = None
    consult: Annotated[
        Literal["always", "unsure", "never"] | None,
        typer.Option(
            help="Ask a model at each step, where the recalls do not agree, or never. "
            "Default: always."
        ),
    ] = None
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            min=1000, help="Most tokens of a prompt; less in a shorter context. Default: 6000."
        ),
    ] = None
    thought: Annotated[
        Literal["none", "short"] | None,
        typer.Option(help="A short thought before each decision of a model. Default: none."),
    ] = None
    histories: Annotated[
        Literal["combined", "paper"] | None,
        typer.Option(
            help="A model notes things as it decides, or is asked for a history first, with two "
            "calls more (paper). Default: combined."
        ),
    ] = None
    admissible: Annotated[
        bool | None,
        typer.Option(
            "--show-admissible/--hide-admissible",
            help="Whether the environment lists the possible actions. Agents with an option "
            "admissible show them with --set admissible=true only.",
        ),
    ] = None

    def policy(self) -> dict[str, str]:
        """Return the options of the policy that were given, as `--set` would have them."""
        return as_given(**{k: v for k, v in asdict(self).items() if k != "admissible"})


@dataclass(frozen=True)
class Recordings:
    """Where model calls are looked up before they are paid."""

    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder of recorded calls that runs share.")
    ] = None
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Answer from this recording or run only.")
    ] = None


@dataclass(frozen=True)
class RunsFrom:
    """Where recorded runs are, and whether the modules that they name are imported."""

    runs: RunsAt = DEFAULT_RUNS
    trust: Trust = False


@dataclass(frozen=True)
class Recorded:
    """How an experiment is recorded, and what is printed of it."""

    as_json: AsJson = False
    runs: RunsAt = DEFAULT_RUNS
    resume: Resume = None
    trust: Trust = False

    def runtime(self, workers: int | None = None, where: Machines | None = None) -> Runtime:
        """Return the runtime of the command."""
        places = asdict(where) if where else {}
        return runtime(self.runs, workers, trust=self.trust, **places)


@dataclass(frozen=True)
class Machines:
    """Where tasks are worked on."""

    backend: Annotated[
        Literal["processes", "threads", "ray"] | None,
        typer.Option(
            help="Where tasks are worked on; default: processes, with a model threads. "
            "ray: a cluster's machines."
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The Ray cluster; default: $RAY_ADDRESS, or local, which starts one.",
        ),
    ] = None


PricesAt = Annotated[
    Path | None, typer.Option("--prices", help="File that adds to the table of prices.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=1.0, help="Seconds that a model's answer may take; default 300."),
]


@dataclass(frozen=True)
class Limits:
    """What a run may cost, and how long an answer may take."""

    max_usd: Annotated[
        float | None, typer.Option(min=0.0, help="Stop before the run costs more US dollars.")
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option(min=0, help="Stop before the run uses more tokens.")
    ] = None
    max_calls: Annotated[
        int | None, typer.Option(min=0, help="Stop before the run makes more model calls.")
    ] = None
    prices: PricesAt = None
    timeout: Timeout = None


@dataclass(frozen=True)
class Calls:
    """Recordings, concurrency and limits: everything of model calls but the models' names."""

    recordings: Recordings = field(default_factory=Recordings)
    concurrency: Concurrency = None
    limits: Limits = field(default_factory=Limits)

    def options(self, **names: str | None) -> ModelOptions:
        """Return the options with models of these names."""
        values = {"concurrency": self.concurrency, **names}
        return model_options(self.recordings, self.limits, **values)


def model_options(
    recordings: Recordings | None = None, limits: Limits | None = None, **values: Any
) -> ModelOptions:
    """Return model options; paths are made absolute, so that a resumed run finds them."""
    for group in (recordings, limits):
        values |= asdict(group) if group else {}
    for name, value in values.items():
        if isinstance(value, Path):
            values[name] = str(value.expanduser().absolute())
    return ModelOptions(**values)


def as_given(**options: object) -> dict[str, str]:
    """Return the options that were given, as `--set` would have them."""
    return dict(settings(**options))


def assigned(assignments: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return (agent options, environment options) of `--set NAME=VALUE` and `--set env.NAME=…`."""
    agent: dict[str, str] = {}
    env: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise LdmError(f"--set {assignment} is not NAME=VALUE.", "For example --set k=7.")
        name = name.strip()
        if name.startswith(ENV_PREFIX):
            env[name.removeprefix(ENV_PREFIX)] = value
        else:
            agent[name] = value
    return agent, env


def option_settings(
    assignments: Iterable[str] | None,
    data: Path | None,
    decisions: Decisions | None = None,
    **env_options: object,
) -> tuple[Settings, Settings]:
    """Return (agent or policy options, environment options) of a command's options together."""
    agent, env = assigned(assignments or ())
    if decisions is not None:
        agent |= decisions.policy()
        env |= as_given(admissible=decisions.admissible)
    if data is not None:
        env["data"] = str(data.expanduser().absolute())
    return sorted_settings(agent), sorted_settings({**env, **as_given(**env_options)})


def refuse_with_resume(**options: object) -> None:
    """Raise LdmError where an option was given beside --resume, which has the recorded ones."""
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            raise LdmError(
                f"--resume goes on with the recorded options, and {name.replace('_', '-')} is "
                "given.",
                "Leave it out, or start a new run.",
            )


def listed_names(text: str) -> tuple[str, ...]:
    """Return the parts of a comma list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def distinct(ids: list[str] | None) -> tuple[str, ...] | None:
    """Return the ids that an option was given with, sorted, each once; None where it was not."""
    return tuple(sorted(set(ids))) if ids else None


def listed_ids(text: str) -> tuple[str, ...]:
    """Return task ids from a comma list, or from a file with one a line (# starts a comment)."""
    path = Path(text)
    if not path.is_file():
        return listed_names(text)
    try:
        lines = untrusted.file_bytes(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise LdmError(f"{path} is not UTF-8 text: {error.reason}.", "Save it as UTF-8.") from error
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))

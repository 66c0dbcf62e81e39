"""Options that several commands share: declared once, expanded into each command's signature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

import typer

from ldm.cli.completing import kinds, runs_below
from ldm.cli.environment import runtime
from ldm.cli.headings import DECISIONS, GENERAL, LIMITS, MEMORY, MODEL, RUNNING, TASKS, under
from ldm.errors import LdmError
from ldm.llm.models import CONCURRENCY, ModelOptions
from ldm.options import ENV_PREFIX, Settings, settings, sorted_settings
from ldm.run.runtime import DEFAULT_RUNS, Runtime
from ldm.run.specs import DEFAULT_MEMORY
from ldm.text import read_bytes

C = TypeVar("C", bound=Callable[..., None])


def expanded(command: C) -> C:
    """Expand parameters whose type is a dataclass of options into one parameter a field.

    Typer sees the fields, in their order; the command is called with the dataclasses. A field may
    be such a dataclass itself. `heading` of a dataclass is the heading of its options in the help.
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


def _parameters(
    hint: Any, parameter: inspect.Parameter, heading: str = GENERAL
) -> Iterator[inspect.Parameter]:
    if not is_dataclass(hint):
        placed = under(heading, hint)
        yield parameter.replace(annotation=placed, kind=inspect.Parameter.KEYWORD_ONLY)
        return
    heading = getattr(hint, "heading", heading)
    hints = get_type_hints(hint, include_extras=True)
    for one in fields(hint):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        plain = inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default)
        yield from _parameters(hints[one.name], plain, heading)


def _collected(hint: Any, values: Mapping[str, Any], name: str) -> Any:
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return values[name]
    hints = get_type_hints(hint)
    return hint(**{one.name: _collected(hints[one.name], values, one.name) for one in fields(hint)})


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only results and errors, no progress.",
        rich_help_panel=GENERAL,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the result as one JSON object.", rich_help_panel=GENERAL),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Agent option, or env.NAME=VALUE; repeatable."
    ),
]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        help="Embedder: wordllama, or a sentence-transformers model.",
        rich_help_panel=MEMORY,
    ),
]
MemoryAt = Annotated[
    str,
    typer.Option(
        "--memory",
        help="A directory, or http://host:port of a Chroma server.",
        rich_help_panel=MEMORY,
    ),
]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Settings of a paper: ldm2, or your own file."),
]
MemoryDefault = Annotated[str | None, typer.Option(help=f"Memory; default {DEFAULT_MEMORY}.")]
BundledEmbedder = Annotated[str | None, typer.Option(help="Embedder; default: the bundled one.")]
Seed = Annotated[int | None, typer.Option(help="Random seed.")]
Kinds = Annotated[
    str | None, typer.Option(help="Only these task kinds, e.g. heat,cool.", autocompletion=kinds)
]
RunsAt = Annotated[Path, typer.Option("--runs", help="Folder of recorded runs.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import modules named in recorded runs; runs their code.")
]
Resume = Annotated[
    str | None, typer.Option(help="Resume this run (directory or id).", autocompletion=runs_below)
]
Data = Annotated[
    Path | None, typer.Option(help="Data folder of the environment.", rich_help_panel=TASKS)
]
LlmName = Annotated[
    str | None,
    typer.Option(
        "--llm", envvar="LDM_LLM", help="Language model for agents.", rich_help_panel=MODEL
    ),
]
PlannerName = Annotated[
    str | None,
    typer.Option(
        "--planner-llm",
        envvar="LDM_PLANNER_LLM",
        help="Model for planning; default: --llm.",
        rich_help_panel=MODEL,
    ),
]
PlannerUrl = Annotated[
    str | None,
    typer.Option(
        "--planner-base-url",
        metavar="URL",
        help="The planner's server, if different; its key is in LDM_PLANNER_API_KEY.",
        rich_help_panel=MODEL,
    ),
]
ReasonerUrl = Annotated[
    str | None,
    typer.Option(
        "--reasoner-base-url",
        metavar="URL",
        help="The reasoner's server, if different; its key is in LDM_REASONER_API_KEY.",
        rich_help_panel=MODEL,
    ),
]
ReasonerName = Annotated[
    str | None,
    typer.Option(
        "--reasoner-llm",
        envvar="LDM_REASONER_LLM",
        help="Model for LDM²'s reasoner; default: --llm. Without both: the offline reasoner.",
        rich_help_panel=MODEL,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, help=f"Maximum concurrent model requests; default {CONCURRENCY}."),
]
TableFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Also write one row per episode to this .csv or .parquet file.",
        rich_help_panel=RUNNING,
    ),
]
EstimateFirst = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Estimate the cost from a small sample, then stop.",
        rich_help_panel=LIMITS,
    ),
]


@dataclass(frozen=True)
class Decisions:
    """How LDM² decides (`ldm.policy.PolicyOptions`), and what an environment shows."""

    heading: ClassVar[str] = DECISIONS

    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, help="Tuples to recall (with a vote: to show); default 5, offline 60."
        ),
    ] = None
    history: Annotated[
        Literal["full", "summary", "actions", "none"] | None,
        typer.Option(help="Part of the history used in a decision. Default: full."),
    ] = None
    rank_history: Annotated[
        bool | None,
        typer.Option(
            "--rank-history/--no-rank-history",
            help="Also rank tuples by the similarity of histories.",
        ),
    ] = None
    recall: Annotated[
        Literal["similarity", "utility"] | None,
        typer.Option(
            help="Rank by similarity alone, or also by learnt utility. Default: similarity."
        ),
    ] = None
    candidates: Annotated[
        Literal["none", "vote"] | None,
        typer.Option(help="Show the model the actions that recalls vote for. Default: none."),
    ] = None
    index: Annotated[
        Literal["embedding", "llm"] | None,
        typer.Option(help="How a state is matched to memory types. Default: embedding."),
    ] = None
    consult: Annotated[
        Literal["always", "unsure", "never"] | None,
        typer.Option(
            help="When to ask a model: always, where memory is unsure, or never. "
            "Default: unsure; always with --histories paper."
        ),
    ] = None
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            min=1000, help="Maximum tokens per prompt. Default: as the model's context allows."
        ),
    ] = None
    thought: Annotated[
        Literal["none", "short"] | None,
        typer.Option(help="Let the model think briefly before each decision. Default: none."),
    ] = None
    histories: Annotated[
        Literal["combined", "paper"] | None,
        typer.Option(
            help="How a model keeps the history: in the call that decides, or in two calls more "
            "(paper). Default: combined."
        ),
    ] = None
    admissible: Annotated[
        bool | None,
        typer.Option(
            "--show-admissible/--hide-admissible",
            help="Whether the environment lists the admissible actions. Agents with an option "
            "admissible show them only with --set admissible=true.",
        ),
    ] = None

    def policy(self) -> dict[str, str]:
        """Return the options of the policy that were given, as `--set` would have them."""
        return as_given(**{k: v for k, v in asdict(self).items() if k != "admissible"})


@dataclass(frozen=True)
class Recordings:
    """Where model calls are looked up before they are paid."""

    heading: ClassVar[str] = MODEL

    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder of recorded calls, shared between runs.")
    ] = None
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Replay model calls from this recording or run.")
    ] = None


@dataclass(frozen=True)
class RunsFrom:
    """Where recorded runs are, and whether the modules that they name are imported."""

    runs: RunsAt = DEFAULT_RUNS
    trust: Trust = False


@dataclass(frozen=True)
class Recorded:
    """How an experiment is recorded, and what is printed of it."""

    heading: ClassVar[str] = RUNNING

    as_json: AsJson = False
    runs: RunsAt = DEFAULT_RUNS
    resume: Resume = None
    trust: Trust = False
    quiet: Quiet = False

    def runtime(self, workers: int | None = None, where: Machines | None = None) -> Runtime:
        """Return the runtime of the command."""
        places = asdict(where) if where else {}
        return runtime(self.runs, workers, trust=self.trust, quiet=self.quiet, **places)


@dataclass(frozen=True)
class Machines:
    """Where tasks are worked on."""

    backend: Annotated[
        Literal["processes", "threads", "ray"] | None,
        typer.Option(
            help="Where tasks run: processes, threads (default with a model), or a Ray cluster."
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Ray cluster; default: $RAY_ADDRESS, or local, which starts one.",
        ),
    ] = None


PricesAt = Annotated[Path | None, typer.Option("--prices", help="File with further model prices.")]
Timeout = Annotated[
    float | None,
    typer.Option(min=1.0, help="Timeout of a model request in seconds; default 300."),
]


@dataclass(frozen=True)
class Limits:
    """What a run may cost, and how long an answer may take."""

    heading: ClassVar[str] = LIMITS

    max_usd: Annotated[
        float | None, typer.Option(min=0.0, help="Stop before the run costs more than this in USD.")
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option(min=0, help="Stop before the run uses more tokens than this.")
    ] = None
    max_calls: Annotated[
        int | None, typer.Option(min=0, help="Stop before the run makes more calls than this.")
    ] = None
    prices: PricesAt = None
    timeout: Timeout = None


@dataclass(frozen=True)
class Calls:
    """Recordings, concurrency and limits: everything of model calls but the models' names."""

    heading: ClassVar[str] = MODEL

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
                f"--resume uses the recorded options, so --{name.replace('_', '-')} cannot be "
                "given with it.",
                "Omit it, or start a new run.",
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
        lines = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise LdmError(f"{path} is not UTF-8 text: {error.reason}.", "Save it as UTF-8.") from error
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))

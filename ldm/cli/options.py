"""The command line of the options tree: each field of a spec is an option, each section is open.

`@offers(Evaluate, …)` gives a command an option for every field that has an `Option`; options of
sections, such as --agent.k, are read by `SpecCommand`. `Given` holds only the values that were
given, nested as `ldm.config.load` reads them.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

from ldm import config, text
from ldm.cli.environment import model_names, runtime
from ldm.config import RUNNING, TASKS, Field, Option, Section, Spec, hints, unknown
from ldm.errors import LdmError
from ldm.llm.models import ModelOptions
from ldm.run.runtime import DEFAULT_RUNS, BackendName, Runtime

C = TypeVar("C", bound=Callable[..., None])
T = TypeVar("T")

#: Characters of an option's name and values beside which its description stands.
NAME_WIDTH = 30
HELP_ALL = "--help-all"
#: Ends the heading of options that --help leaves out.
RARE = " (rare)"
#: The parameter of a command that holds Typer's context, and our key in that context.
CONTEXT, SECTIONS = "context", "sections"


def _metavar(hint: Any) -> str | None:
    """Return the placeholder of a value in help; None leaves choices to Typer."""
    kinds = {str: "TEXT", int: "N", float: "X", Path: "PATH", Section: "NAME"}
    if get_origin(hint) is tuple:
        return "A,B"
    return next((kinds[one] for one in (hint, *get_args(hint)) if one in kinds), None)


def shorts(group: str, owner: type[Any], *paths: str) -> type[Any]:
    """Return a dataclass of options that are short for those of a section.

    group: their heading, unless they have one. owner: the section's dataclass. paths: such as
    "agent.k".
    """
    made = []
    for path in paths:
        one = hints(owner)[path.partition(".")[2]]
        own = one.option or Option(one.description, group)
        option = replace(own, path=path, metavar=_metavar(one.hint) or "")
        made.append((one.name, Annotated[str | None, option], None))
    return make_dataclass("Shorts", made)


#: Short forms of the model options that are used most; the others are --models.NAME.
_OFTEN = ("llm", "planner_llm", "reasoner_llm", "replay", "max_usd")
Models = shorts(config.MODEL, ModelOptions, *(f"models.{name}" for name in _OFTEN))
#: The data folder of an environment, short for --env.data.
DATA = Option("Data folder of the environment; default: its variable.", TASKS, path="env.data")


@dataclass(frozen=True)
class Output:
    """The options of a command's output."""

    quiet: Annotated[
        bool, Option("Print only results and errors.", RUNNING, flags=("--quiet", "-q"))
    ] = False
    as_json: Annotated[
        bool, Option("Print the result as one JSON object.", RUNNING, flags=("--json",))
    ] = False


@dataclass(frozen=True)
class Recording(Output):
    """The options for recording and running an experiment; none of them changes a result."""

    workers: Annotated[
        int | None, Option("Tasks in parallel; default: cores, or requests in flight.", RUNNING)
    ] = None
    backend: Annotated[
        BackendName | None, Option("Where tasks run; threads with a model.", RUNNING, rare=True)
    ] = None
    resume: Annotated[str | None, Option("Resume this run (directory or id).", RUNNING)] = None
    runs: Annotated[Path, Option("Folder of recorded runs.", RUNNING)] = DEFAULT_RUNS
    trust: Annotated[
        bool, Option("Import modules that recorded runs name; runs their code.", RUNNING, rare=True)
    ] = False

    def runtime(self) -> Runtime:
        """Return the runtime of the command."""
        return replace(
            runtime(quiet=self.quiet),
            runs=self.runs,
            workers=self.workers,
            backend=self.backend,
            trust=self.trust,
        )


def offers(*owners: type[Any]) -> Callable[[C], C]:
    """Give a command, which takes `**values`, an option for each field of the owners."""

    def decorate(command: C) -> C:
        listed = [
            _parameter(one) for owner in owners for one in hints(owner).values() if one.option
        ]
        kind = inspect.Parameter.KEYWORD_ONLY
        listed.append(inspect.Parameter(CONTEXT, kind, annotation=typer.Context))
        command.owners = owners  # type: ignore[attr-defined]
        command.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in listed}
        return command

    return decorate


@dataclass(frozen=True)
class Given:
    """The options given to a command that `offers` decorates."""

    command: Callable[..., None]
    values: Mapping[str, Any]

    def of(self, owner: type[Any]) -> dict[str, Any]:
        """Return the given fields of a spec, with its sections, as nested values.

        Variables name the models that the command line does not.
        """
        named = {"models": model_names()}
        return config.merge(owner, named, self._own(owner), self._sections(owner))

    def group(self, owner: type[T]) -> T:
        """Return a dataclass of options with the given values and its defaults."""
        return owner(**self._own(owner))

    def model_changes(self) -> Section:
        """Return the model options of the command line, for a run that has recorded its models."""
        return Section.read(self._sections(config.Evaluate).get("models", {}))

    def refuse_with_resume(self, spec: type[Spec], own: type[Any], but: Sequence[str]) -> None:
        """Raise LdmError for an option that a resumed run has recorded.

        own: further options of the command; `but` these are accepted, and so are those of models:
        a run may go on with higher limits.
        """
        sections = {name: one for name, one in self._sections(spec).items() if name != "models"}
        paths = [f"{name}.{next(iter(one))}" for name, one in sections.items()]
        recorded = [name for name in self._own(own) if name not in but]
        for name in (*self._own(spec), *recorded, *paths):
            known = hints(own).get(name)
            flag = f"--{_dashed(name.removesuffix('.name'))}"
            flag = known.option.flags[0] if known and known.option and known.option.flags else flag
            raise LdmError(
                f"--resume uses the recorded options, so {flag} cannot be given.",
                "Omit it, or start a new run.",
            )

    def _own(self, owner: type[Any]) -> dict[str, Any]:
        known = hints(owner)
        return {
            name: _read(known[name], value)
            for name, value in self.values.items()
            if name in known and _is_given(known[name], value)
        }

    def _sections(self, owner: type[Any]) -> dict[str, dict[str, Any]]:
        """Return section → option → value, from dotted options and their short forms."""
        paths = {
            one.option.path: value
            for each in self.command.owners  # type: ignore[attr-defined]
            for name, one in hints(each).items()
            if one.option and one.option.path and (value := self.values.get(name)) is not None
        }
        paths |= self.values[CONTEXT].meta[SECTIONS]
        result: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for path, value in paths.items():
            section, _, option = path.partition(".")
            if section in owner.sections():
                result[section][option] = _placed(path, value)
        return dict(result)


class SpecCommand(TyperCommand):
    """A command with options of sections, and a help page under headings."""

    @property
    def sections(self) -> dict[str, Field]:
        """Return the sections whose options the command takes, as in --agent.k 7."""
        owners = getattr(self.callback, "owners", ())
        return {n: one for owner in owners for n, one in hints(owner).items() if one.of}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read --section.option VALUE, and leave the rest to Typer.

        Raises LdmError with a suggestion for an option of no section of this command.
        """
        if HELP_ALL in args:
            ctx.meta[HELP_ALL] = args
            typer.echo(ctx.get_help())
            ctx.exit()
        rest: list[str] = []
        dotted: dict[str, str] = {}
        words = iter(args)
        for word in words:
            if word == "--set":  # NAME=VALUE, as scripts give --SECTION.NAME or --agent.NAME
                named = next(words, "")
                word = f"--{named}" if "." in named.partition("=")[0] else f"--agent.{named}"
            path, equals, value = word.removeprefix("--").partition("=")
            section, dot, option = path.partition(".")
            if word.startswith("--") and dot and section in self.sections:
                given = value if equals else next(words, "")
                if not (given or equals):
                    ctx.fail(f"Option '{word}' requires an argument.")
                dotted[f"{section}.{option.replace('-', '_')}"] = given
            elif word.startswith("--") and dot and " " not in path:
                raise unknown(section, list(self.sections), f"There is no section --{section}.")
            else:
                rest.append(word)
        ctx.meta[SECTIONS] = dotted
        left: list[str] = super().parse_args(ctx, rest)
        return left

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, and options by heading; rare ones and sections with --help-all."""
        args = ctx.meta.get(HELP_ALL)
        by_heading: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            heading = getattr(parameter, "rich_help_panel", None) or config.GENERAL
            if parameter.param_type_name == "argument":
                heading = "Arguments"
            if heading.endswith(RARE) and args is None:
                continue
            name, description = record
            by_heading[heading.removesuffix(RARE)].append((name.ljust(NAME_WIDTH), description))
        for heading in ("Arguments", *config.HEADINGS):
            if lines := by_heading.get(heading):
                with formatter.section(heading):
                    formatter.write_dl(lines)
        if args is None:
            formatter.write_paragraph()
            formatter.write_text(f"{HELP_ALL} lists every option of this command.")
            return
        for section, one in self.sections.items():
            named = args[args.index(f"--{section}") + 1] if f"--{section}" in args[:-1] else ""
            named = named or one.default.name
            with formatter.section(f"Options of {section} {named}".rstrip()):
                formatter.write_dl(list(_described(one, named)))


def _described(section: Field, named: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a section with their meaning; `named` is the agent or environment."""
    assert section.of is not None  # noqa: S101 - it is a section
    if section.of.registry and not named:
        yield f"--{section.name}.NAME VALUE", f"See `ldm {section.of.registry} NAME`."
        return
    for name, one in hints(section.of.load(named)).items():
        default = _default(one)
        yield (
            f"--{section.name}.{_dashed(name)}".ljust(NAME_WIDTH),
            f"{one.description}{default} ({config.takes(one.hint)})".strip(),
        )


def _default(one: Field) -> str:
    """Return a field's default for help pages, "" if it says nothing."""
    if isinstance(one.default, Section):
        return f" [{one.default.name}]" if one.default.name else ""
    return "" if one.default in (None, "", (), False) else f" [{config.written(one.default)}]"


def _read(one: Field, value: Any) -> Any:
    if one.name == "tasks":
        return listed_ids(value)
    return listed_names(value) if get_origin(one.hint) is tuple else value


def _placed(path: str, value: Any) -> Any:
    """Return a value with its full path if it names a place that a run resumed elsewhere needs."""
    places = ("env.data", "models.cache", "models.replay", "models.prices")
    return str(Path(value).expanduser().absolute()) if path in places else value


def _is_given(one: Field, value: Any) -> bool:
    """Return whether the command line gave an option of its own, not one short for another."""
    own = one.option is not None and not one.option.path
    return own and value is not None and not (one.hint is bool and value is False)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _parameter(one: Field) -> inspect.Parameter:
    """Return a field as a parameter that Typer understands; None stands for "not given"."""
    assert one.option is not None  # noqa: S101 - only such fields are offered
    default: Any = None
    if one.option.argument:
        kind: Any = one.hint
        details: Any = typer.Argument(metavar=one.option.argument, help=one.option.help)
        if NoneType not in get_args(one.hint):
            default = inspect.Parameter.empty
    else:
        kind, details = _typer_type(one.hint), _typer_option(one, one.option)
        default = False if one.hint is bool else None
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, details],
    )


def _typer_option(one: Field, option: Option) -> Any:
    flags = option.flags or (f"--{_dashed(one.name)}",)
    if bool in get_args(one.hint):
        flags = (f"{flags[0]}/--no-{flags[0][2:]}",)
    return typer.Option(
        *flags,
        help=option.help + _default(one),
        metavar=option.metavar or _metavar(one.hint),
        rich_help_panel=option.group + RARE * option.rare,
    )


def _typer_type(hint: Any) -> Any:
    """Return the type by which Typer reads a field: text for sections and lists, else its own."""
    if hint is bool:
        return bool
    if hint is Section or get_origin(hint) is tuple:
        return str | None
    return hint if NoneType in get_args(hint) else hint | None


def listed_names(listed: str) -> tuple[str, ...]:
    """Return the parts of a comma list."""
    return tuple(part.strip() for part in listed.split(",") if part.strip())


def listed_ids(named: str) -> tuple[str, ...]:
    """Return task ids from a comma list, or from a file with one per line (# starts a comment)."""
    path = Path(named)
    if not path.is_file():
        return listed_names(named)
    lines = text.decoded(text.read_bytes(path), path).splitlines()
    ids = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if ids and ids[0].startswith("{"):
        raise LdmError(
            f"{path} holds JSON, not task ids.",
            "List ids, one a line; a published list of textcraft is named with --env.tasks.",
        )
    return ids


AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
EmbedderName = Annotated[
    str | None, typer.Option(help="The memory's embedder, if it is your own: module:Class.")
]
MemoryAt = Annotated[str, typer.Option(help="Directory, or http://host:port of a server.")]
RunNames = Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")]
RunsAt = Annotated[Path, typer.Option(help="Folder of recorded runs.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import modules named in recorded runs; runs their code.")
]
LlmName = Annotated[str | None, typer.Option(envvar="LDM_LLM", help="Language model.")]


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal whether to go on.

    yes: do not ask. Raises LdmError without a terminal, typer.Exit if the user declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise LdmError(
            f"{question} There is no terminal to answer in.", "Add --yes if you are sure."
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)

"""The options tree: one value specifies an experiment.

`Evaluate`, `Refine`, `OptimisePlan` and `Build` are read and written by the command line, by
presets (TOML), by run.json (`"spec"`) and by Python alike. A field is an option of its name;
a section's options have dotted names, as in `--agent.k 7`, `agent = { name = "ldm", k = 7 }` or
`Evaluate("alfworld", agent={"name": "ldm", "k": 7})`. A section is checked against the dataclass of
options that it belongs to when it is used, because that class is found by name.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from ldm.errors import LdmError, did_you_mean
from ldm.types import Within

Value = None | bool | int | float | str | tuple["Value", ...]
T = TypeVar("T")

DEFAULT_AGENT = "ldm"
DEFAULT_MEMORY = ".ldm/memory"
DEFAULT_GOALS = 60

#: Headings of help pages, in their order.
TRAJECTORIES, TASKS, AGENT, PLAN = "Trajectories", "Tasks", "Agent", "Plan"
SEARCH, MEMORY, MODEL, LIMITS = "Search", "Memory", "Model", "Limits"
RUNNING, GENERAL = "Running", "General"
HEADINGS = (TRAJECTORIES, TASKS, AGENT, PLAN, SEARCH, MEMORY, MODEL, LIMITS, RUNNING, GENERAL)


@dataclass(frozen=True, slots=True)
class Option:
    """The option of the command line for a field.

    help: one sentence. group: the heading. rare: listed by --help-all alone. path: the option of a
    section that it is short for, as in "agent.k". flags: in place of the field's name. argument:
    the name of a positional argument, "" for an option. metavar: how the value is shown.
    """

    help: str
    group: str = GENERAL
    rare: bool = False
    path: str = ""
    flags: tuple[str, ...] = ()
    argument: str = ""
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Of:
    """The declaration of a section's options.

    options: the dataclass as "package.module:Class", or if the section's name decides, what loads
    the class that has the options. registry: the command that lists such classes.
    """

    options: str
    registry: Literal["", "agents", "envs"] = ""

    def load(self, name: str = "", *, recorded: bool = False) -> type[Any]:
        """Return the dataclass of options. Raises LdmError for an unknown name."""
        module, _, attribute = self.options.partition(":")
        declared: Any = getattr(importlib.import_module(module), attribute)
        options: type[Any] = declared
        if self.registry:
            options = declared(name, recorded=recorded).Options
        return options


@dataclass(frozen=True, slots=True)
class Section:
    """The options of one part of an experiment, as given; `typed` adds the defaults.

    name: of an agent or environment, or package.module:Class. given: (option, value), sorted.
    """

    name: str = ""
    given: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def read(cls, value: Section | str | Mapping[str, Any]) -> Section:
        """Return the section that a name, or a mapping of options with the key "name", stands for.

        Raises LdmError for anything else.
        """
        if isinstance(value, Section):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping):
            options = {str(key).replace("-", "_"): _frozen(one) for key, one in value.items()}
            name = options.pop("name", "")
            return cls(str(name), tuple(sorted(options.items())))
        raise LdmError(
            f"{value!r} is no section of options.", "Give a name, or a table of options."
        )

    @property
    def options(self) -> dict[str, Value]:
        """The given options by name."""
        return dict(self.given)

    def with_options(self, **values: Any) -> Section:
        """Return the section with further options; given ones are replaced."""
        return Section.read({"name": self.name, **self.options, **values})

    def only(self, known: Sequence[str] | set[str]) -> Section:
        """Return the section with those of its options that are `known`."""
        return Section(self.name, tuple(one for one in self.given if one[0] in known))

    def text(self, option: str, default: str = "default") -> str:
        """Return the value of an option as one writes it, or `default` if it is not given."""
        return written(self.options[option]) if option in self.options else default

    def settled(self, values: Any) -> Section:
        """Return the section with its given values as those of the dataclass that `typed` made."""
        return Section(self.name, tuple((n, _frozen(getattr(values, n))) for n, _ in self.given))

    def typed(self, options: type[T], owner: str) -> T:
        """Return the dataclass `options` with the given values, which may be texts as one writes.

        owner: names the options in errors, e.g. "agent ldm". Lists are written with commas, None as
        "none". Raises LdmError for an unknown option and for a value that its type does not take.
        """
        known, read = hints(options), dict[str, Any]()
        for name, value in self.given:
            _check_known(name, known, owner[:1].upper() + owner[1:])
            with _fitting(f"{name} of {owner}", known[name].hint, value):
                read[name] = parsed(known[name].hint, value)
        try:
            return options(**read)
        except ValueError as error:
            raise LdmError(
                f"Invalid options for {owner}: {error}.", "Correct these options."
            ) from error


if TYPE_CHECKING:

    class SectionField:
        """A field that holds a section and also takes a name or a mapping."""

        def __init__(self, name: str = "") -> None: ...
        def __get__(self, instance: object, owner: Any = None) -> Section: ...
        def __set__(self, instance: object, value: Section | str | Mapping[str, Any]) -> None: ...
else:
    SectionField = Section

#: Defaults of sections.
NO_OPTIONS, LDM = SectionField(), SectionField(DEFAULT_AGENT)

AGENT_SECTION = Of("ldm.agents:load_agent", "agents")
ENV_SECTION = Of("ldm.envs:load_env", "envs")
MODELS_SECTION = Of("ldm.llm.models:ModelOptions")

#: Options of several experiments.
ENV = Option("Environment: a name or package.module:Class.", TASKS)
TRAINING = Option("Training split.", TASKS)
KINDS = Option("Only these task kinds: a,b.", TASKS)
TASK_IDS = Option("Task ids: a,b or a file with one a line.", TASKS, rare=True)
PLACE = Option("Directory, or http://host:port of a server.", MEMORY)
EMBEDDER = Option("Embedder; default: the memory's.", MEMORY, rare=True)
SEED = Option("Random seed.", TASKS)


class Spec:
    """Base of the experiments: reads names and mappings as sections, and lists as tuples.

    A section without a name has that of its default.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise LdmError for a text if a field takes several values."""
        for one in fields(self):  # type: ignore[arg-type]
            value, hint = getattr(self, one.name), hints(type(self))[one.name].hint
            if hint is Section:
                value = Section.read(value)
                value = Section(value.name or one.default.name, value.given)
            elif isinstance(value, PurePath):
                value = str(value)
            elif isinstance(value, list):
                value = tuple(value)
            elif isinstance(value, str) and typing.get_origin(hint) is tuple:
                raise LdmError(
                    f"{one.name} takes several values, and {value!r} is one text.",
                    f"Write {one.name}=({value!r},).",
                )
            object.__setattr__(self, one.name, value)

    @classmethod
    def sections(cls) -> dict[str, Of]:
        """Return the sections by name, with the declarations of their options."""
        return {name: of for name, one in hints(cls).items() if (of := one.of) is not None}

    def typed(self, name: str) -> Any:
        """Return a section as its dataclass of options. Raises LdmError for one that does not fit.

        name: of the section, such as "agent", whose options are those of the named agent.
        """
        section: Section = getattr(self, name)
        owner = f"{'environment' if name == 'env' else name} {section.name}".strip()
        return section.typed(self.sections()[name].load(section.name), owner)

    def settled(self: T, *names: str) -> T:
        """Return the experiment with each value given in these sections as its type."""
        settled = {name: getattr(self, name).settled(self.typed(name)) for name in names}  # type: ignore[attr-defined]
        return replace(self, **settled)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Evaluate(Spec):
    """One agent on the tasks of a split.

    memory_digest: of the memory's generation, so that a resumed run does not mix two memories.
    repeat: number of this evaluation among repeats with consecutive seeds, from 1.
    """

    command: ClassVar[str] = "eval"
    noun: ClassVar[str] = "an evaluation"
    #: Prefixes of the names of prompts that it may use.
    prompts: ClassVar[tuple[str, ...]] = ("",)

    env: Annotated[SectionField, ENV_SECTION, ENV] = NO_OPTIONS
    split: Annotated[str, Option("Split; each environment has a default.", TASKS)] = ""
    agent: Annotated[SectionField, AGENT_SECTION, Option("Agent, or several: A,B.", AGENT)] = LDM
    kinds: Annotated[tuple[str, ...], KINDS] = ()
    limit: Annotated[int | None, Option("Number of tasks, balanced over kinds.", TASKS)] = None
    tasks: Annotated[tuple[str, ...], TASK_IDS] = ()
    memory: Annotated[str, PLACE] = DEFAULT_MEMORY
    generation: int | None = None
    embedder: Annotated[str | None, EMBEDDER] = None
    memory_digest: str = ""
    seed: Annotated[int, SEED] = 0
    without_tuples: Annotated[
        tuple[str, ...], Option("Never recall these tuples: ID,ID.", MEMORY, rare=True)
    ] = ()
    without_trajectories: Annotated[
        tuple[str, ...],
        Option("Never recall tuples of these trajectories: ID,ID.", MEMORY, rare=True),
    ] = ()
    repeat: int = 1
    models: Annotated[SectionField, MODELS_SECTION] = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Refine(Spec):
    """The exploration of training goals with one generation of a memory.

    round: number of this exploration among `rounds`, from 1.
    """

    command: ClassVar[str] = "refine"
    noun: ClassVar[str] = "a refinement"
    prompts: ClassVar[tuple[str, ...]] = ("",)

    env: Annotated[
        SectionField, ENV_SECTION, Option("Environment; default: the memory's only one.", TASKS)
    ] = NO_OPTIONS
    split: Annotated[str, TRAINING] = ""
    kinds: Annotated[tuple[str, ...], KINDS] = ()
    limit: Annotated[
        int | None,
        Option(f"Number of new goals, balanced over kinds; default {DEFAULT_GOALS}.", TASKS),
    ] = None
    tasks: Annotated[tuple[str, ...], TASK_IDS] = field(default=(), repr=False)
    reuse_goals: Annotated[
        bool, Option("Also explore goals that the memory knows.", TASKS, rare=True)
    ] = False
    memory: Annotated[str, PLACE] = DEFAULT_MEMORY
    generation: Annotated[
        int | None, Option("Memory generation; not the newest: --dry-run only.", MEMORY, rare=True)
    ] = None
    embedder: Annotated[str | None, EMBEDDER] = None
    memory_digest: str = ""
    policy: Annotated[SectionField, Of("ldm.policy:PolicyOptions")] = NO_OPTIONS
    search: Annotated[SectionField, Of("ldm.explore.refine:RefineOptions")] = NO_OPTIONS
    gate: Annotated[SectionField, Of("ldm.explore.gate:GateOptions")] = NO_OPTIONS
    rounds: Annotated[int, Option("Rounds, each with the memory of the one before.", SEARCH)] = 1
    round: int = 1
    seed: Annotated[int, SEED] = 0
    models: Annotated[SectionField, MODELS_SECTION] = NO_OPTIONS

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        if not 1 <= self.round <= self.rounds:
            raise LdmError(f"rounds is 1 or more, not {self.rounds}.", "Correct it.")


@dataclass(frozen=True, slots=True)
class OptimisePlan(Spec):
    """The optimisation of a plan for one kind of task (AutoPlan).

    kind: given by name; "all" for one plan for tasks of all kinds. pool: ids of the training tasks
    that batches are drawn from. variant, repeat: among several optimisations the setting that
    differs, as in "batch=8", and the number of the run with that setting, from 1.
    """

    command: ClassVar[str] = "autoplan"
    noun: ClassVar[str] = "an optimisation of a plan"
    prompts: ClassVar[tuple[str, ...]] = ("agents/autoplan", "agents/formalise")
    embedder: ClassVar[str | None] = None
    memory: ClassVar[str] = ""
    generation: ClassVar[int | None] = None
    memory_digest: ClassVar[str] = ""

    env: Annotated[SectionField, ENV_SECTION, ENV] = NO_OPTIONS
    split: Annotated[str, TRAINING] = ""
    kind: Annotated[str, Option("Task kinds a,b; each: a plan a kind; all: one plan.", TASKS)] = ""
    out: Annotated[str, Option("Folder for the plan files.", PLAN)] = "plans"
    pool: tuple[str, ...] = field(default=(), repr=False)
    plan: Annotated[SectionField, Of("ldm.agents.autoplan.optimiser:AutoPlanSettings")] = NO_OPTIONS
    seed: Annotated[int, SEED] = 0
    variant: str = ""
    repeat: int = 1
    models: Annotated[SectionField, MODELS_SECTION] = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Build(Spec):
    """The building of a memory from trajectories.

    env: named as module:Class, the memory remembers the class, so that commands load it themselves.
        It plays the recorded episodes again to learn which actions were possible.
    """

    command: ClassVar[str] = "build-memory"
    noun: ClassVar[str] = "a memory"

    env: Annotated[
        SectionField, ENV_SECTION, Option("Only this environment; default: all.", TRAJECTORIES)
    ] = NO_OPTIONS
    format: Annotated[
        str, Option("Format of the files; default: as their lines tell.", TRAJECTORIES, rare=True)
    ] = ""
    strict: Annotated[bool, Option("Stop at the first invalid record.", TRAJECTORIES)] = False
    per_kind: Annotated[
        int, Option("Trajectories of each task kind, drawn by --seed; 0: all.", TRAJECTORIES)
    ] = 0
    min_reward: Annotated[float, Option("Skip trajectories of lower score.", TRAJECTORIES)] = 0.0
    failures: Annotated[
        Literal["drop", "keep", "contrast"],
        Option("Trajectories that scored 0: skip, keep, or keep as warnings.", TRAJECTORIES),
    ] = "drop"
    batch_size: Annotated[
        int, Option("Trajectories of a batch; 0: the environment's published size.", MEMORY)
    ] = 0
    seed: Annotated[int, Option("Random seed.", TRAJECTORIES)] = 0
    embedder: Annotated[
        str | None, Option("Embedder; default: the bundled one.", MEMORY, rare=True)
    ] = None
    rebuild: Annotated[bool, Option("Delete the memory first.", MEMORY)] = False
    wording: Annotated[
        Literal["ours", "reworded", "paper"],
        Option("Questions to a model: ours, or LDM²'s, reworded or as printed.", MODEL),
    ] = "ours"
    models: Annotated[SectionField, MODELS_SECTION] = NO_OPTIONS

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        if min(self.per_kind, self.batch_size) < 0 or not 0 <= self.min_reward <= 1:
            raise LdmError(
                "per_kind and batch_size are 0 or more, min_reward is from 0 to 1.", "Correct it."
            )


#: Any experiment that is recorded as a run.
S = TypeVar("S", Evaluate, Refine, OptimisePlan)


def full_location(memory: str) -> str:
    """Return the memory's place as a run records it, to be resumed from any directory."""
    return memory if "://" in memory else str(Path(memory).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class Field:
    """One option of a dataclass: its type, help and declarations."""

    name: str
    hint: Any
    default: Any
    option: Option | None = None
    of: Of | None = None
    description: str = ""


def _hints(owner: Any) -> dict[str, Field]:
    result = {}
    declared = typing.get_type_hints(owner, include_extras=True)
    for one in fields(owner):
        hint, extras = declared[one.name], tuple[Any, ...]()
        if typing.get_origin(hint) is Annotated:
            hint, *extras = typing.get_args(hint)  # type: ignore[assignment]
            if bounds := tuple(extra for extra in extras if isinstance(extra, Within)):
                hint = Annotated[hint, *bounds]
        made = one.default_factory
        default = one.default if made is MISSING else made()
        option = next((extra for extra in extras if isinstance(extra, Option)), None)
        of = next((extra for extra in extras if isinstance(extra, Of)), None)
        words = next((extra for extra in extras if isinstance(extra, str)), "")
        description = words or (option.help if option else "")
        result[one.name] = Field(one.name, hint, default, option, of, description)
    return result


#: Dataclass → its fields by name, as declared by `Annotated`.
hints: Callable[[Any], dict[str, Field]] = cache(_hints)


def load(owner: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Return an experiment from nested values: TOML, run.json or command-line options.

    where: names the file and the place in it in errors, as in "run.json: spec".
    Raises LdmError for an unknown field, and for a value that its type does not take.
    """
    known = hints(owner)
    read: dict[str, Any] = {}
    for name, value in values.items():
        _check_known(name, known, where or owner.__name__)
        one = known[name]
        with _fitting(f"{where and where + '.'}{name}", one.hint, value):
            read[name] = Section.read(value) if one.hint is Section else parsed(one.hint, value)
    return owner(**read)


def dump(spec: Any) -> dict[str, Any]:
    """Return an experiment as nested JSON values, which `load` reads."""
    result: dict[str, Any] = {}
    for one in fields(spec):
        value = getattr(spec, one.name)
        if isinstance(value, Section):
            value = {**({"name": value.name} if value.name else {}), **value.options}
        result[one.name] = _listed(value)
    return result


def merge(spec: type[Any], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested values; later layers win, option by option within sections."""
    sections = spec.sections()
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if name in sections and name in result:
                before, now = Section.read(result[name]), Section.read(value)
                value = {"name": now.name or before.name, **before.options, **now.options}
            result[name] = value
    return result


def parsed(hint: Any, value: Any) -> Any:
    """Return a value, or the text of one, as its type: of a path, the full one, as runs record it.

    Raises ValueError if it does not fit.
    """
    text = isinstance(value, str)
    if text and value.lower() == "none" and NoneType in typing.get_args(hint):
        return None
    if text and typing.get_origin(hint) in (tuple, list, frozenset):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        result = _adapter(hint).validate_python(value)
    except ValidationError as error:
        raise ValueError(error.errors(include_url=False)[0]["msg"]) from error
    return result.expanduser().absolute() if isinstance(result, Path) else result


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def takes(hint: Any) -> str:
    """Describe the values of a type, for help and errors."""
    if typing.get_origin(hint) is Annotated:
        kind, *bounds = typing.get_args(hint)
        return " ".join([takes(kind), *map(str, bounds)])
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(str(one) or '""' for one in typing.get_args(hint))
    if typing.get_origin(hint) in (tuple, list, frozenset):
        return "a list such as a,b"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    if parts := typing.get_args(hint):
        words = ["none" if one is NoneType else takes(one) for one in parts]
        return (", or " if " or " in words[0] else " or ").join(words)
    if is_dataclass(hint) or hint is Section:
        return "a name or a table of options"
    return names.get(hint, "a path" if hint is Path else getattr(hint, "__name__", str(hint)))


def written(value: Any) -> str:
    """Return a value of an option as one writes it: true, none, a,b."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(written, value))
    return str(value)


def unknown(name: str, known: Sequence[str], what: str) -> LdmError:
    """Return the error for an unknown name, with a suggestion. what: the message."""
    return LdmError(what, f"{did_you_mean(name, known)}Known: {', '.join(known) or 'none'}.")


def _check_known(name: str, known: Mapping[str, Any], owner: str) -> None:
    if name not in known:
        raise unknown(name, list(known), f"{owner} has no option {name!r}.")


@contextmanager
def _fitting(name: str, hint: Any, value: Any) -> Iterator[None]:
    """Turn the refusal of a value into an LdmError that says what the option takes."""
    try:
        yield
    except (LdmError, ValueError) as error:
        raise LdmError(
            f"{name} takes {takes(hint)}, not {_listed(value)!r}.", "Correct that option."
        ) from error


def _frozen(value: Any) -> Value:
    """Return a value of TOML or JSON as one that can be hashed."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, PurePath):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise LdmError(f"{value!r} is no value of an option.", "Give a text, number, true or list.")


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value

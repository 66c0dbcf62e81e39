"""Presets: a table of a paper as a file of options, with the rows that were published.

The files (TOML) that ship are in `ldm/presets`, a table each; anybody's own is named by its path.
docs/usage/evaluating.md#a-papers-table says what stands in one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_type_hints

from pydantic import Field

from ldm.errors import LdmError
from ldm.options import Settings, override, settings
from ldm.run.published import Figures, PublishedRow, PublishedTable
from ldm.text import read_bytes
from ldm.types import stable_hash

SHIPPED = Path(__file__).parent.parent / "presets"
SUFFIX = ".toml"
#: The most bytes that a preset may have.
MOST_BYTES = 1 << 20
GUIDE = "docs/usage/evaluating.md#a-papers-table says what stands in a preset."

Value = str | int | float | bool
ModelRole = Literal["llm", "planner_llm", "reasoner_llm"]
Count = Annotated[int, Field(ge=1, le=10**9)]

_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What all rows have in common: fields of `EvaluationSpec`, options as TOML values.

    agent_options: of those agents that have them.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    env: str
    split: str
    kinds: tuple[str, ...] = ()
    limit: Count | None = None
    tasks: tuple[str, ...] = ()
    seed: int = 0
    env_options: dict[str, Value] = field(default_factory=dict)
    agent_options: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the agent that is to reproduce it, and what was published.

    name: what the paper calls it. agent: "" where there is none, so that the row is only shown.
    env_options: of this row's environment alone. models: model option → the one whose model takes
    its place, as in { llm = "planner_llm" }: in this row the planner's model acts, too. generation:
    of the memory; None is the newest. published, note: see `PublishedRow`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    agent: str = ""
    agent_options: dict[str, Value] = field(default_factory=dict)
    env_options: dict[str, Value] = field(default_factory=dict)
    models: dict[ModelRole, ModelRole] = field(default_factory=dict)
    generation: int | Literal["newest"] | None = None
    published: Figures = Figures()  # noqa: RUF009 - frozen
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "name": self.name,
            "agent": self.agent or None,
            "agent_options": dict(self.agent_options),
            "env_options": dict(self.env_options),
            "models": dict(self.models),
            "generation": self.generation,
            "success_percent": self.published.all,
            "score_percent": self.published.score,
            "by_kind_percent": dict(self.published.kinds),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Formed:
    """The paper's memory: how many trajectories it was formed from, in batches of what size."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    trajectories: Count
    batch_size: Count

    @property
    def batches(self) -> int:
        """How many batches these are."""
        return -(-self.trajectories // self.batch_size)


@dataclass(frozen=True, slots=True)
class Build:
    """How the paper's memory is formed; fields of `BuildOptions`."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    formation: Literal["trajectory", "paper"] = "paper"
    per_kind: Count | None = None
    batch_size: Count | None = None


@dataclass(frozen=True, slots=True)
class Refine:
    """How the paper's memory is refined; fields of `RefinementSpec`, options as TOML values.

    tasks: how many new goals.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tasks: Count
    split: str = ""
    env_options: dict[str, Value] = field(default_factory=dict)
    policy_options: dict[str, Value] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    gate_options: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """What stands in the file of a preset.

    paper, table, model, tasks, second_hand, notes: see `PublishedTable`.
    needs: options that have to be given, such as "env.tasks" → what they are. prepare: commands
    that make what the preset needs. build, refine: how the memory is made, for the same option of
    `ldm build-memory` and `ldm refine`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    title: str
    paper: str
    table: str
    evaluation: Evaluated
    rows: tuple[Row, ...]
    model: str = ""
    tasks: Count | None = None
    second_hand: bool = False
    notes: tuple[str, ...] = ()
    needs: dict[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    memory: Formed | None = None
    build: Build | None = None
    refine: Refine | None = None


@dataclass(frozen=True)
class Preset:
    """A table of a paper, ready to be evaluated beside its published rows: `evaluate_preset`.

    name: that of its file. digest: of what the file held.
    """

    name: str
    file: Path
    digest: str
    content: Content

    def __str__(self) -> str:
        """Return the title and where the table stands."""
        return f"{self.content.title} ({self.content.paper}, {self.content.table})"

    @property
    def env(self) -> str:
        """The environment that it evaluates."""
        return self.content.evaluation.env

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents that it evaluates, each once."""
        return tuple(dict.fromkeys(row.agent for row in self.content.rows if row.agent))

    @cached_property
    def published(self) -> PublishedTable:
        """The table as it was published."""
        own = self.content
        rows = tuple(PublishedRow(row.name, row.published, row.note) for row in own.rows)
        return PublishedTable(
            own.paper, own.table, own.model, own.tasks, own.second_hand, rows, own.notes
        )

    def as_json(self) -> dict[str, Any]:
        """Return what there is to say of a preset, as JSON values."""
        own = self.content
        shared = own.evaluation
        return {
            "name": self.name,
            "title": own.title,
            "paper": own.paper,
            "table": own.table,
            "model": own.model,
            "tasks": own.tasks,
            "second_hand": own.second_hand,
            "env": shared.env,
            "split": shared.split,
            "kinds": list(shared.kinds),
            "limit": shared.limit,
            "chosen_tasks": len(shared.tasks),
            "env_options": dict(shared.env_options),
            "agent_options": dict(shared.agent_options),
            "agents": list(self.agents),
            "needs": self.needs(),
            "build": None if own.build is None else asdict(own.build),
            "refine": None if own.refine is None else asdict(own.refine),
            "prepare": list(own.prepare),
            "rows": [row.as_json() for row in own.rows],
            "notes": list(own.notes),
            "file": str(self.file),
            "digest": self.digest,
        }

    def needs(self) -> list[str]:
        """Return what has to be there, in a few words each. Raises LdmError as `check`."""
        from ldm.agents import load_agent
        from ldm.envs import load_env
        from ldm.envs.metadata import metadata_of

        own = self.content
        known = metadata_of(load_env(self.env, recorded=True))
        loaded = [load_agent(agent, recorded=True) for agent in self.agents]
        needed = {need for agent in loaded for need in agent.needs}
        words = ["a model"] if needed & {"llm", "reasoner"} else []
        if "memory" in needed:
            words.append("a memory")
        if known.data is not None and known.data.variable:
            words.append(known.data.place)
        return [*words, *(f"{option}: {what}" for option, what in own.needs.items())]

    def check(self, *, trust: bool = False) -> None:
        """Raise LdmError where it names an agent, an environment or an option that is not there.

        trust: whether its file may name modules that are not registered, which runs their code.
        """
        from ldm.agents import load_agent
        from ldm.envs import load_env

        own = self.content.evaluation
        with self._naming("evaluation.env"):
            env = load_env(own.env, recorded=not trust)
        with self._naming("evaluation.env_options"):
            override(env.Options, dict(written(own.env_options)), f"environment {own.env}")
        self._check_refinement(env.Options)
        lacking = set(own.agent_options)
        for number, row in enumerate(self.content.rows):
            if not row.agent:
                continue
            with self._naming(f"rows.{number}.env_options"):
                env_options = dict(written({**own.env_options, **row.env_options}))
                override(env.Options, env_options, f"environment {own.env}")
            with self._naming(f"rows.{number}.agent"):
                options = load_agent(row.agent, recorded=not trust).Options
            lacking -= (known := {one.name for one in fields(options)})
            common = {k: v for k, v in own.agent_options.items() if k in known}
            values = dict(written({**common, **row.agent_options}))
            with self._naming(f"rows.{number}.agent_options"):
                override(options, values, f"agent {row.agent}")
        if lacking:
            raise LdmError(
                f"{self.file}:evaluation.agent_options: none of its agents has an option "
                f"{min(lacking)!r}.",
                "Correct it there; `ldm agents` lists what each has.",
            )

    def _check_refinement(self, env_options: type[Any]) -> None:
        """Raise LdmError where its refinement has an option that is not there."""
        from ldm.explore import GateOptions, RefineOptions
        from ldm.policy import PolicyOptions

        own = self.content.refine
        for name, options in {
            "env_options": env_options,
            "policy_options": PolicyOptions,
            "options": RefineOptions,
            "gate_options": GateOptions,
        }.items():
            with self._naming(f"refine.{name}"):
                override(options, dict(written(getattr(own, name, {}))), "refinement")

    @contextmanager
    def _naming(self, where: str) -> Iterator[None]:
        """Name the file and the field `where` in an LdmError."""
        try:
            yield
        except LdmError as error:
            error.message = f"{self.file}:{where}: {error.message}"
            if error.remedy.startswith("Change --set"):
                error.remedy = "Correct it there."
            raise


def list_presets(name: str = "") -> tuple[Preset, ...]:
    """Return the shipped presets whose name is `name` or begins with it, or the one in a file.

    name: "" for all that ship; a path ends in .toml. Raises LdmError where there is none, or where
    a file is damaged.
    """
    if name.endswith(SUFFIX):
        return (read(Path(name).expanduser()),)
    known = {path.stem: path for path in sorted(SHIPPED.glob(f"*{SUFFIX}"))}
    chosen = [one for one in known if one == name] or [
        one for one in known if not name or one.startswith(f"{name}-")
    ]
    if not chosen:
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise LdmError(
            f"There is no preset {name!r}.",
            f"{hint}Known: {', '.join(known)}; or name a file of your own, FILE{SUFFIX}.",
        )
    return tuple(read(known[one]) for one in chosen)


def preset(name: str | Path) -> Preset:
    """Return the preset of this name, or in this file.

    Raises LdmError where there is none, where the name stands for several, or where the file is
    damaged.
    """
    several = list_presets(str(name))
    if len(several) > 1:
        raise LdmError(
            f"{name} stands for several presets.",
            f"Name one of {', '.join(one.name for one in several)}.",
        )
    return several[0]


def read(path: Path) -> Preset:
    """Return the preset in a file. Raises LdmError that names the place and what belongs there."""
    content = read_bytes(path, most=MOST_BYTES)
    if len(content) > MOST_BYTES:
        raise LdmError(f"{path} is longer than {MOST_BYTES // 2**20} MB.", GUIDE)
    try:
        text = content.decode()
        data = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise LdmError(f"{path} is not UTF-8 text: {error.reason}.", "Save it as UTF-8.") from error
    except RecursionError as error:
        raise LdmError(f"{path} is nested too deeply.", GUIDE) from error
    except ValueError as error:  # of TOML, or a number of too many digits
        place = _PLACE.search(str(error))
        line = f":{place[1]}" if place else ""
        fault = _PLACE.sub("", str(error))
        raise LdmError(
            f"{path}{line}: not TOML: {fault}.", f"Correct that line. {GUIDE}"
        ) from error
    return Preset(path.stem, path, stable_hash(text), _content(data, str(path)))


def written(options: Mapping[str, Value]) -> Settings:
    """Return options of a file as specs hold them."""
    return settings(**options)


def _content(data: Mapping[str, Any], file: str) -> Content:
    """Return what a file holds, with all of its fields checked."""
    from pydantic import TypeAdapter, ValidationError

    try:
        text = json.dumps(data, default=str)  # dates become texts, which fit nowhere
        return TypeAdapter(Content).validate_json(text, strict=True)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = [str(part) for part in detail["loc"]]
    place = f"{file}:{'.'.join(where)}"
    if detail["type"] == "unexpected_keyword_argument":
        known = list(_known(where[:-1]))
        close = get_close_matches(where[-1], known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise LdmError(f"{place}: there is no such field.", f"{hint}Known: {', '.join(known)}.")
    fault = "it is missing" if detail["type"] in ("missing", "missing_argument") else detail["msg"]
    raise LdmError(f"{place}: {fault}.", f"Correct it there. {GUIDE}")


def _known(where: Sequence[str]) -> list[str]:
    """Return the names of the fields at a place in a preset."""
    owner: Any = Content
    for part in where:
        if not part.isdecimal():
            hint = get_type_hints(owner)[part]
            owner = next(one for one in (hint, *get_args(hint)) if is_dataclass(one))
    return [one.name for one in fields(owner)]

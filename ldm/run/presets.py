"""Presets: a table of a paper as a file of options, with the rows that were published.

The shipped files (TOML) are in `ldm/presets`, one per table; your own are named by their paths.
docs/usage/evaluating.md#a-papers-table describes their content. Nothing is computed from published
figures: they come from other models, prompts or tasks, so they enter no interval, difference or
ranking.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, ValidationError

from ldm import config, records
from ldm.agents import load_agent
from ldm.envs import load_env
from ldm.envs.metadata import metadata_of
from ldm.errors import LdmError, did_you_mean
from ldm.run.results import Report, percent, span
from ldm.text import decoded, read_bytes
from ldm.types import stable_hash

#: In per cent, as printed in the paper.
Percent = Annotated[int | float, Field(ge=0, le=100)]
COLUMNS = ("agent", "figures", "success", "95 % interval")
HERE, ELSEWHERE = "measured here", "published"
#: The argument of a run with the record of its preset.
PRESET = "preset"
#: The fields of a preset that `ldm eval --json` repeats.
TABLE = ("paper", "table", "model", "tasks", "second_hand", "notes")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures in a row of a table; None if it lacks one.

    all: success over all tasks. score: the mean score. kinds: success by kind of task.
    """

    all: Percent | None = None
    score: Percent | None = None
    kinds: dict[str, Percent] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != Figures()


ModelRole = Literal["llm", "planner_llm", "reasoner_llm"]
Count = Annotated[int, Field(ge=1, le=10**9)]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the agent that reproduces it, and the published figures.

    name: as in the paper. agent: a name with options; {} if the row is only shown. env:
    options of this row's environment alone. models: model option → the one whose model replaces
    it: { llm = "planner_llm" } lets the planner's model act, too. generation: of the memory;
    None is the newest. note: a remark on it.
    """

    name: str
    agent: str | dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    models: dict[ModelRole, ModelRole] = field(default_factory=dict)
    generation: int | Literal["newest"] | None = None
    published: Figures = Figures()
    note: str = ""

    @property
    def player(self) -> config.Section:
        """Return the agent as a section; without a name if there is none."""
        return config.Section.read(self.agent)


@dataclass(frozen=True, slots=True)
class Formed:
    """The paper's memory: the number of its trajectories, and its batch size."""

    trajectories: Count
    batch_size: Count

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.trajectories // self.batch_size)


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a preset's file.

    paper, table: its location. model: the one that the figures were measured with. tasks: their
    number; None if not stated. second_hand: the paper's own text was not available to check them.
    notes: differences from the paper.
    evaluation: fields of `Evaluate` that all rows have; options of `agent` are for those agents
    that have them, and `tasks` may be a file of ids beside the preset. build, refine: fields
    of `Build` and `Refine`, for `--preset` of `ldm build-memory` and `ldm refine`. memory: the
    paper's. needs: required options, such as "env.tasks" → their meaning. prepare: commands that
    create what the preset needs. repeats: how often each task is played.
    """

    title: str
    paper: str
    table: str
    evaluation: dict[str, Any]
    rows: tuple[Row, ...]
    model: str = ""
    tasks: Count | None = None
    repeats: Count = 1
    second_hand: bool = False
    notes: tuple[str, ...] = ()
    needs: dict[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    memory: Formed | None = None
    build: dict[str, Any] = field(default_factory=dict)
    refine: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The source of the figures, in a few words."""
        return f"{self.paper}, {self.table}"


@dataclass(frozen=True, slots=True)
class PresetRecord:
    """The record of a preset in a run that it started.

    name, digest: the preset's. content: of its file, with the differences of this run as notes.
    counterparts: names of the published rows with this run's settings. overridden: the options
    given in place of the preset's settings, in words.
    """

    name: str
    digest: str
    content: Content
    counterparts: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()


def beside(
    reports: Sequence[Report], records: Sequence[PresetRecord]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return columns and rows: each report, and below it the published rows that it reproduces.

    records: of the reports' runs. Published rows without a counterpart follow in the paper's order.
    """
    rows = records[0].content.rows
    kinds = [kind for row in rows for kind in row.published.kinds]
    kinds += sorted(kind for report in reports for kind in report.summary.by_kind)
    kinds = list(dict.fromkeys(kinds))
    lines, matched = list[tuple[str, ...]](), set[str]()
    for report, record in zip(reports, records, strict=True):
        lines.append(_measured(report, kinds))
        for row in rows:
            if row.name in record.counterparts and row.published and row.name not in matched:
                matched.add(row.name)
                lines.append(_published(row, kinds))
    lines += (_published(row, kinds) for row in rows if row.published and row.name not in matched)
    if any(row.published.score is not None for row in rows):
        return (*COLUMNS, *kinds, "score"), lines
    return (*COLUMNS, *kinds), [line[:-1] for line in lines]


def remarks(record: PresetRecord) -> list[str]:
    """Return remarks on the published rows: their source, and the differences."""
    table = record.content
    measured = ", ".join(
        filter(None, (table.model, "" if table.tasks is None else f"{table.tasks} tasks"))
    )
    origin = f"Published rows are those of {table.source}" + (f" ({measured})" if measured else "")
    lines = [f"{origin}. They were not measured here: do not rank them with what was."]
    if table.second_hand:
        lines.append("They are second-hand: the paper's text was not there to check them.")
    if record.overridden:
        lines.append(
            f"Overridden, so that the protocol is no longer the published one: "
            f"{'; '.join(record.overridden)}."
        )
    lines += (f"Differs from the paper: {note}" for note in table.notes)
    lines += (f"{row.name}: {row.note}" for row in table.rows if row.note)
    return lines


def as_json(reports: Sequence[Report], records: Sequence[PresetRecord]) -> dict[str, Any]:
    """Return the published table as JSON values, figures in per cent as printed.

    "beside" names the agent that has a row's settings, or is None without one.
    """
    first = records[0]
    table = {name: getattr(first.content, name) for name in TABLE}
    pairs = reversed(list(zip(reports, records, strict=True)))
    agents = {name: report.label for report, record in pairs for name in record.counterparts}
    return {
        **table,
        **{name: getattr(first, name) for name in ("name", "digest", "overridden")},
        "published": [
            {
                "row": row.name,
                "beside": agents.get(row.name),
                **asdict(row.published),
                "note": row.note,
            }
            for row in first.content.rows
            if row.published
        ],
    }


def _measured(report: Report, kinds: Sequence[str]) -> tuple[str, ...]:
    overall, by_kind = report.summary.overall, report.summary.by_kind
    rates = (percent(by_kind[kind].success_rate if kind in by_kind else None) for kind in kinds)
    own = (report.label, HERE, percent(overall.success_rate), span(overall.interval))
    return (*own, *rates, percent(overall.mean_score).removesuffix(" %"))


def _published(row: Row, kinds: Sequence[str]) -> tuple[str, ...]:
    figures = row.published
    rates = (figure(figures.kinds.get(kind), " %") for kind in kinds)
    own = (row.name, ELSEWHERE, figure(figures.all, " %"), "–")
    return (*own, *rates, figure(figures.score))


def figure(value: float | None, unit: str = "") -> str:
    """Return a figure as printed in the paper."""
    return "–" if value is None else f"{value}{unit}"


SHIPPED = Path(__file__).parent.parent / "presets"
SUFFIX = ".toml"
#: Maximum bytes of a preset.
MOST_BYTES = 1 << 20
#: Options that say what to open, to run or to delete: those of the command line alone.
OF_THE_USER = {"memory", "embedder", "models", "rebuild"}
GUIDE = "docs/usage/evaluating.md#a-papers-table says what stands in a preset."

_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


@dataclass(frozen=True)
class Preset:
    """A table of a paper, ready to be evaluated beside its published rows: `evaluate_preset`.

    name: that of its file. digest: of the file's content.
    """

    name: str
    file: Path
    digest: str
    content: Content

    def __str__(self) -> str:
        """Return the title and the location of the table."""
        return f"{self.content.title} ({self.content.source})"

    @property
    def env(self) -> str:
        """The environment that it evaluates."""
        return self.evaluation.env.name

    @cached_property
    def evaluation(self) -> config.Evaluate:
        """The fields that all rows share."""
        return config.load(
            config.Evaluate, self.content.evaluation, where=f"{self.file}:evaluation"
        )

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents that it evaluates, each once."""
        names = (row.player.name for row in self.content.rows)
        return tuple(dict.fromkeys(filter(None, names)))

    def as_json(self) -> dict[str, Any]:
        """Return the content of its file, and values derived from it, as JSON values."""
        return {
            **asdict(self.content),
            **{"name": self.name, "env": self.env, "agents": list(self.agents)},
            **{"needs": self.needs(), "file": str(self.file), "digest": self.digest},
        }

    def needs(self) -> list[str]:
        """Return the requirements, a few words each. Raises LdmError as `check`."""
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
        """Raise LdmError for an agent, an environment or an option that does not exist.

        trust: whether its file may name modules that are not registered, which runs their code.
        """
        own = self.evaluation
        with self._naming("evaluation.env"):
            config.ENV_SECTION.load(own.env.name, recorded=not trust)
            own.typed("env")
        self._check_making()
        lacking = set(own.agent.options)
        for number, row in enumerate(self.content.rows):
            if not (player := row.player).name:
                continue
            with self._naming(f"rows.{number}.env"):
                replace(own, env=own.env.with_options(**row.env)).typed("env")
            with self._naming(f"rows.{number}.agent"):
                options = config.AGENT_SECTION.load(player.name, recorded=not trust)
                known = {one.name for one in fields(options)}
                lacking -= known
                shared = own.agent.only(known).options
                replace(own, agent={"name": player.name, **shared, **player.options}).typed("agent")
        if lacking:
            raise LdmError(
                f"{self.file}:evaluation.agent: none of its agents has an option {min(lacking)!r}.",
                "Correct it there; `ldm agents` lists what each has.",
            )

    def _check_making(self) -> None:
        """Raise LdmError for an option of building or refining its memory that does not fit."""
        own = self.content
        config.load(config.Build, own.build, where=f"{self.file}:build")
        refining = config.merge(config.Refine, {"env": self.env}, own.refine)
        refinement = config.load(config.Refine, refining, where=f"{self.file}:refine")
        for name in config.Refine.sections():
            with self._naming(f"refine.{name}"):
                refinement.typed(name)

    @contextmanager
    def _naming(self, where: str) -> Iterator[None]:
        """Name the file and the field `where` in an LdmError."""
        try:
            yield
        except LdmError as error:
            error.message = f"{self.file}:{where}: {error.message}"
            raise


def list_presets(name: str = "") -> tuple[Preset, ...]:
    """Return the shipped presets whose name is `name` or begins with it, or the one in a file.

    name: "" for all shipped ones; a path ends in .toml. Raises LdmError if there is none, or if a
    file is damaged.
    """
    if name.endswith(SUFFIX):
        return (read(Path(name).expanduser()),)
    known = {path.stem: path for path in sorted(SHIPPED.glob(f"*{SUFFIX}"))}
    chosen = [one for one in known if one == name] or [
        one for one in known if not name or one.startswith(f"{name}-")
    ]
    if not chosen:
        others = f"Known: {', '.join(known)}; or name a file of your own, FILE{SUFFIX}."
        raise LdmError(f"There is no preset {name!r}.", did_you_mean(name, known) + others)
    return tuple(read(known[one]) for one in chosen)


def preset(name: str | Path) -> Preset:
    """Return the preset of this name, or in this file.

    Raises LdmError if there is none, if the name matches several, or if the file is damaged.
    """
    several = list_presets(str(name))
    if len(several) > 1:
        raise LdmError(
            f"{name} stands for several presets.",
            f"Name one of {', '.join(one.name for one in several)}.",
        )
    return several[0]


def read(path: Path) -> Preset:
    """Return the preset in a file. Raises LdmError that names the place and the expected value."""
    content = read_bytes(path, most=MOST_BYTES)
    if len(content) > MOST_BYTES:
        raise LdmError(f"{path} is longer than {MOST_BYTES // 2**20} MB.", GUIDE)
    text = decoded(content, path)
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise LdmError(f"{path} is nested too deeply.", GUIDE) from error
    except ValueError as error:  # of TOML, or a number of too many digits
        place = _PLACE.search(str(error))
        line = f":{place[1]}" if place else ""
        fault = _PLACE.sub("", str(error))
        raise LdmError(
            f"{path}{line}: not TOML: {fault}.", f"Correct that line. {GUIDE}"
        ) from error
    listed = _listed(data, path)
    preset = Preset(path.stem, path, stable_hash(text + listed), _content(data, str(path)))
    for part in ("evaluation", "build", "refine"):
        for name in OF_THE_USER & getattr(preset.content, part).keys():
            raise LdmError(
                f"{path}:{part}.{name}: a preset cannot say this.",
                "Leave it out there, and give it on the command line.",
            )
    return preset


def _listed(data: dict[str, Any], path: Path) -> str:
    """Put the tasks of the list that a preset names in its place; return the list's text.

    Raises LdmError if it cannot be read.
    """
    own = data.get("evaluation")
    if not isinstance(own, dict) or not isinstance(own.get("tasks"), str):
        return ""
    text = read_bytes(path.parent / own["tasks"], most=MOST_BYTES).decode(errors="replace")
    own["tasks"] = text.split()
    return text


def stage_preset(name: str, env: str, stage: Literal["build", "refine"]) -> dict[str, Any]:
    """Return the fields of `Build` or `Refine` for a preset's memory of `env`.

    name: as for `list_presets`. env: "" if the name matches one environment alone.
    Raises LdmError if there is none, or if several fit.
    """
    known = [one for one in list_presets(name) if getattr(one.content, stage)]
    fitting = [one for one in known if env in ("", one.env)]
    if len(fitting) == 1:
        chosen = fitting[0]
        config.ENV_SECTION.load(chosen.env, recorded=env != chosen.env)
        owner = config.Build if stage == "build" else config.Refine
        return config.merge(owner, {"env": chosen.env}, getattr(chosen.content, stage))
    if not known:
        raise LdmError(
            f"The preset {name!r} does not say how a memory is made.",
            "Leave out --preset, or name one of `ldm presets` that has a memory.",
        )
    raise LdmError(
        f"The preset {name!r} is of {' and '.join(sorted(one.env for one in known))}"
        + (f", not of {env}." if env else "."),
        "Name one of these environments with --env.",
    )


def _content(data: Mapping[str, Any], file: str) -> Content:
    """Return the content of a file, with all of its fields checked."""
    try:
        text = json.dumps(data, default=str)  # dates become texts, which fit nowhere
        content: Content = records.validator(Content).validate_json(text, strict=True)
        return content
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = [str(part) for part in detail["loc"]]
    place = f"{file}:{'.'.join(where)}"
    if detail["type"] == "unexpected_keyword_argument":
        raise config.unknown(where[-1], _known(where[:-1]), f"{place}: there is no such field.")
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

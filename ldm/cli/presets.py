"""`ldm presets`: the tables of papers that one option evaluates, and their requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, Trust

if TYPE_CHECKING:
    from ldm.run.presets import Preset, Row


def presets(
    name: Annotated[
        str, typer.Argument(metavar="[PRESET]", help="Name of a preset, or your own file.")
    ] = "",
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """List the published tables that `ldm eval --preset NAME` reproduces, or show one.

    A preset is shown with its settings, its rows with their published figures, and what differs
    from the paper.

    \b
    Examples:
      ldm presets
      ldm presets adapt-table2
      ldm presets my-table.toml --json
    """
    from ldm.run.presets import list_presets

    chosen = list_presets(name)
    for preset in chosen if name else ():
        preset.check(trust=trust)
    if as_json:
        entries = [preset.as_json() for preset in chosen]
        output.print_json(entries[0] if name and len(entries) == 1 else {"presets": entries})
    elif name:
        for preset in chosen:
            _print(preset)
    else:
        _list(chosen)


def _list(presets: Sequence[Preset]) -> None:
    columns = ("preset", "table", "environment", "split", "tasks", "agents", "needs")
    rows = []
    for one in presets:
        own, lists = one.content, (", ".join(one.agents), ", ".join(one.needs()))
        table = f"{own.paper.partition(',')[0]}, {own.table}"
        rows.append((one.name, table, one.env, one.evaluation.split, own.tasks or "–", *lists))
    output.print_table("Presets", columns, rows)


def _print(preset: Preset) -> None:
    from ldm.run.published import figure

    own, shared = preset.content, preset.evaluation
    output.show(f"{preset.name}: {preset}")
    measured = ", ".join(filter(None, (own.model, f"{own.tasks} tasks" if own.tasks else "")))
    chosen = [shared.split, *shared.kinds]
    chosen += [f"limit {shared.limit}"] if shared.limit else []
    chosen += [f"{len(shared.tasks)} tasks by id"] if shared.tasks else []
    facts = {
        "published": measured + (" (second-hand)" if own.second_hand else ""),
        "environment": f"{preset.env}: {', '.join(chosen)}",
        "environment options": _options(shared.env.options),
        "options of all agents": _options(shared.agent.options),
        "memory built with": _options(_flat(own.build)),
        "memory refined with": _options(_flat(own.refine)),
        "needs": ", ".join(preset.needs()),
        "file": preset.file,
    }
    for name, value in facts.items():
        if value:
            output.show(f"  {name}: {value}")
    for heading, lines in (("prepare with", own.prepare), ("differs", own.notes)):
        for line in lines:
            output.show(f"  {heading}: {line}")
    kinds = list(dict.fromkeys(kind for row in own.rows for kind in row.published.kinds))
    scored = any(row.published.score is not None for row in own.rows)
    columns = ("row", "agent", "options", "all", *kinds, *(("score",) if scored else ()))
    rows = [
        (
            *(row.name, row.player.name or "–", _row_options(row), figure(row.published.all)),
            *(figure(row.published.kinds.get(kind)) for kind in kinds),
            *((figure(row.published.score),) if scored else ()),
        )
        for row in own.rows
    ]
    output.print_table("Rows, with their published figures in per cent", columns, rows)
    for row in own.rows:
        if row.note:
            output.show(f"{row.name}: {row.note}")


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings and those of their groups as one mapping, without unchanged ones."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            prefix = "env." if name == "env" else ""
            flat |= {f"{prefix}{option}": one for option, one in value.items()}
        elif value not in (None, ""):
            flat[name] = value
    return flat


def _row_options(row: Row) -> str:
    settings = {"agent": row.player.options, "generation": row.generation}
    return _options(_flat({**settings, "env": row.env, "models": row.models})) or "–"

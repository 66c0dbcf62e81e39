"""`ldm presets`: which tables of papers can be evaluated with one option, and what each needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, Trust

if TYPE_CHECKING:
    from ldm.run.presets import Preset


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
    entries = [preset.as_json() for preset in chosen]
    if as_json:
        output.print_json(entries[0] if name and len(entries) == 1 else {"presets": entries})
    elif name:
        for preset in chosen:
            _print(preset)
    else:
        _list(entries)


def _list(entries: list[dict[str, Any]]) -> None:
    columns = ("preset", "table", "environment", "split", "tasks", "agents", "needs")
    rows = []
    for one in entries:
        table = f"{one['paper'].partition(',')[0]}, {one['table']}"
        lists = (", ".join(one[name]) for name in ("agents", "needs"))
        rows.append((one["name"], table, one["env"], one["split"], one["tasks"] or "–", *lists))
    output.print_table("Presets", columns, rows)


def _print(preset: Preset) -> None:
    entry = preset.as_json()
    output.say(f"{preset.name}: {preset}", error=False)
    measured = ", ".join(
        filter(None, (entry["model"], f"{entry['tasks']} tasks" if entry["tasks"] else ""))
    )
    chosen = [entry["split"], *entry["kinds"]]
    chosen += [f"limit {entry['limit']}"] if entry["limit"] else []
    chosen += [f"{entry['chosen_tasks']} tasks by id"] if entry["chosen_tasks"] else []
    facts = {
        "published": measured + (" (second-hand)" if entry["second_hand"] else ""),
        "environment": f"{entry['env']}: {', '.join(chosen)}",
        "environment options": _options(entry["env_options"]),
        "options of all agents": _options(entry["agent_options"]),
        "memory built with": _options(_flat(entry["build"] or {})),
        "memory refined with": _options(_flat(entry["refine"] or {})),
        "needs": ", ".join(entry["needs"]),
        "file": entry["file"],
    }
    for name, value in facts.items():
        if value:
            output.say(f"  {name}: {value}", error=False)
    for heading, lines in (("prepare with", entry["prepare"]), ("differs", entry["notes"])):
        for line in lines:
            output.say(f"  {heading}: {line}", error=False)
    kinds = list(dict.fromkeys(kind for row in entry["rows"] for kind in row["by_kind_percent"]))
    scored = any(row["score_percent"] is not None for row in entry["rows"])
    columns = ("row", "agent", "options", "all", *kinds, *(("score",) if scored else ()))
    rows = [
        (
            row["name"],
            row["agent"] or "–",
            _row_options(row),
            _figure(row["success_percent"]),
            *(_figure(row["by_kind_percent"].get(kind)) for kind in kinds),
            *((_figure(row["score_percent"]),) if scored else ()),
        )
        for row in entry["rows"]
    ]
    output.print_table("Rows, with their published figures in per cent", columns, rows)
    for row in entry["rows"]:
        if row["note"]:
            output.say(f"{row['name']}: {row['note']}", error=False)


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings and those of their groups in one, without what is left as it is."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            prefix = "env." if name in ("env", "env_options") else ""
            flat |= {f"{prefix}{option}": one for option, one in value.items()}
        elif value not in (None, ""):
            flat[name] = value
    return flat


def _row_options(row: dict[str, Any]) -> str:
    names = ("agent_options", "generation", "env_options", "models")
    return _options(_flat({name: row[name] for name in names})) or "–"


def _figure(value: float | None) -> str:
    return "–" if value is None else str(value)

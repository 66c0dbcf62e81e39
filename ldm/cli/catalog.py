"""`ldm agents` and `ldm envs`, other packages' included, and `ldm presets`: tables of papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from ldm import registry
from ldm.agents import AGENTS, load_agent
from ldm.agents import GROUP as AGENT_GROUP
from ldm.cli import output
from ldm.cli.options import AsJson, Trust
from ldm.config import Field, hints
from ldm.envs import GROUP as ENV_GROUP
from ldm.envs import load_env
from ldm.envs.metadata import card_of, metadata_of, registered
from ldm.errors import LdmError
from ldm.run.presets import Preset, Row, figure, list_presets
from ldm.types import Card

ONLY = "Only this one: a name or module:Class."


def agents(name: Annotated[str, typer.Argument(help=ONLY)] = "", as_json: AsJson = False) -> None:
    """List the agents: where each comes from, what it needs, and its options.

    Each option is listed with its default, also where a run has a model, and its meaning. Values by
    environment, a paper's or ours, replace None there.

    \b
    Examples:
      ldm agents
      ldm agents react
    """
    environments, _ = registered()
    cards = {name: card for name, env in environments.items() if (card := card_of(env))}

    def describe(agent: Any) -> dict[str, Any]:
        return {
            "paper": agent.paper,
            "needs": list(agent.needs),
            "sees_reward": agent.sees_reward,
            "with_a_model": dict(agent.with_model({})),
            **_published(agent, cards),
        }

    output.print_entries(
        _entries(registry.names(AGENTS, AGENT_GROUP), load_agent, describe, name), as_json
    )


def envs(name: Annotated[str, typer.Argument(help=ONLY)] = "", as_json: AsJson = False) -> None:
    """List the environments: what each is, its default split, and its options.

    Each option is listed with its default and its meaning.

    \b
    Examples:
      ldm envs
      ldm envs alfworld
    """

    def describe(env: Any) -> dict[str, Any]:
        data = metadata_of(env).data
        return {
            "paper": env.paper,
            "needs": env.needs,
            "default_split": env.default_split,
            "data": data.place if data else "",
            "data_sizes": dict(data.sizes) if data else {},
        }

    output.print_entries(_entries(registry.names({}, ENV_GROUP), load_env, describe, name), as_json)


def _entries(
    known: Mapping[str, str],
    load: Callable[[str], Any],
    describe: Callable[[Any], dict[str, Any]],
    only: str,
) -> dict[str, dict[str, Any]]:
    """Return name → description; for a class that cannot be loaded, the reason.

    known: name → class. only: the only one to describe, which must be loadable; "" for all.
    """
    entries: dict[str, dict[str, Any]] = {}
    if only:
        load(only)
        known = {only: known.get(only, only)}
    for name, target in known.items():
        try:
            loaded = load(name)
            options = hints(loaded.Options)
            entries[name] = {
                "is": (loaded.__doc__ or "").strip().partition("\n")[0],
                **describe(loaded),
                "options": _defaults(options),
                "descriptions": {n: o.description for n, o in options.items() if o.description},
                "class": target,
            }
        except (LdmError, AttributeError) as error:
            entries[name] = {"unusable": str(error), "class": target}
    return entries


def _published(agent: Any, cards: Mapping[str, Card]) -> dict[str, dict[str, Any]]:
    """Return the values by environment, as its card has them, of options that are None."""
    values: dict[str, dict[str, Any]] = {}
    for option in hints(agent.Options):
        for name, card in cards.items():
            if option in (known := card.published.get(agent.name, {})):
                values.setdefault(f"{option} by environment", {})[name] = known[option]
    return values


def _defaults(options: Mapping[str, Field]) -> dict[str, Any]:
    """Return option → default as a JSON value, or as text if JSON has no such value."""
    defaults = {name: one.default for name, one in options.items()}
    plain = str | int | float | None
    return {n: one if isinstance(one, plain) else str(one) for n, one in defaults.items()}


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
    chosen = list_presets(name)
    for preset in chosen if name else ():
        preset.check(trust=trust)
    if as_json:
        entries = [preset.as_json() for preset in chosen]
        output.print_json(entries[0] if name and len(entries) == 1 else {"presets": entries})
    elif name:
        for preset in chosen:
            _print_preset(preset)
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


def _print_preset(preset: Preset) -> None:
    own, apart = preset.content, ("title", "paper", "table", "rows", "name", "digest")
    entry = {name: value for name, value in preset.as_json().items() if name not in apart}
    output.print_entries({preset.name: {"is": str(preset), **entry}})
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
    output.say_all(f"{row.name}: {row.note}" for row in own.rows if row.note)


def _row_options(row: Row) -> str:
    own = {"generation": row.generation, "env": row.env, "models": row.models}
    return output.worded({**row.player.options, **own}) or "–"

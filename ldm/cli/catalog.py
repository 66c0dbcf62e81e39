"""`ldm agents` and `ldm envs`: those built in, and those of other installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ldm import registry
from ldm.cli import output
from ldm.cli.options import AsJson
from ldm.config import Field, hints
from ldm.errors import LdmError
from ldm.types import Card

ONLY = "Only this one: a name or module:Class."


def agents(name: Annotated[str, typer.Argument(help=ONLY)] = "", as_json: AsJson = False) -> None:
    """List the agents: where each comes from, what it needs, and its options.

    Each option is listed with its default, also where a run has a model, and its meaning. Published
    values are those of a paper for an environment, where they replace None.

    \b
    Examples:
      ldm agents
      ldm agents react
    """
    from ldm.agents import AGENTS, GROUP, load_agent
    from ldm.envs.metadata import card_of, registered

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

    _print(_entries(registry.names(AGENTS, GROUP), load_agent, describe, name), as_json)


def envs(name: Annotated[str, typer.Argument(help=ONLY)] = "", as_json: AsJson = False) -> None:
    """List the environments: what each is, its default split, and its options.

    Each option is listed with its default and its meaning.

    \b
    Examples:
      ldm envs
      ldm envs alfworld
    """
    from ldm.envs import ENVS, GROUP, load_env
    from ldm.envs.metadata import metadata_of

    def describe(env: Any) -> dict[str, Any]:
        data = metadata_of(env).data
        return {
            "paper": env.paper,
            "needs": env.needs,
            "default_split": env.default_split,
            "data": data.place if data else "",
            "data_sizes": dict(data.sizes) if data else {},
        }

    _print(_entries(registry.names(ENVS, GROUP), load_env, describe, name), as_json)


def _print(entries: dict[str, dict[str, Any]], as_json: bool) -> None:
    if as_json:
        output.print_json(entries)
        return
    for name, entry in entries.items():
        output.show(name + (f": {entry['is']}" if entry.get("is") else ""))
        for key, value in entry.items():
            if key in ("is", "descriptions"):
                continue
            if key == "options" and value:
                _print_options(value, entry["descriptions"])
            elif key == "needs" or value not in ({}, [], ""):
                output.show(f"  {key.replace('_', ' ')}: {_worded(value)}")


def _print_options(defaults: Mapping[str, Any], meanings: Mapping[str, str]) -> None:
    """Print one line per option: its default and its meaning."""
    output.show("  options:")
    for name, value in defaults.items():
        meaning = f": {meanings[name]}" if name in meanings else ""
        output.show(f"    {name}={value}{meaning}")


def _worded(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{key}={item}" for key, item in value.items())
        case list():
            return ", ".join(map(str, value)) or "nothing"
        case bool():
            return "yes" if value else "no"
    return str(value)


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
                "descriptions": {
                    n: one.description
                    for n, one in hints(loaded.Options).items()
                    if one.description
                },
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

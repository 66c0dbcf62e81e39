"""`ldm llm`: try a model, see what its server can do, and what calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.models import (
    CacheAt,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    Models,
    PricesAt,
    ReplayOf,
    connection,
    say_accounts,
)
from ldm.errors import LdmError

llm_app = typer.Typer(no_args_is_help=True, help="Try language models, and see what they cost.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
#: What --field understands.
TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list[str],
}


@llm_app.command("ask", short_help="Ask a model, once or several times.")
def ask(  # noqa: PLR0913, PLR0917 - one parameter an option
    prompt: Annotated[str, typer.Argument(metavar="PROMPT")],
    llm: LlmName = None,
    system: Annotated[str, typer.Option(help="A system message before it.")] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:TYPE",
            help=f"Ask for JSON with this field; TYPE is {', '.join(TYPES)}.",
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    samples: Annotated[int, typer.Option(min=1, help="Replies to draw.")] = 1,
    length: Annotated[int, typer.Option(min=1, help="Tokens of a reply at most.")] = 512,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    record: Annotated[
        Path | None, typer.Option(help="Folder to record the calls in; nothing is paid twice.")
    ] = None,
    cache: CacheAt = None,
    replay: ReplayOf = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    prices: PricesAt = None,
    as_json: AsJson = False,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, in the way agents do.

    With --field the reply is a validated JSON object; a bad one is asked for once more.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --field name:str --field warm:bool
      ldm llm ask "Name a colour." --llm qwen2.5 --temperature 0.8 --samples 5 --record asked
      ldm llm ask "Name a colour." --replay asked
    """
    from ldm.llm import Message, Sampling, Scoped

    options = ModelOptions.given(
        llm=llm,
        cache=cache,
        replay=replay,
        max_usd=max_usd,
        max_tokens=max_tokens,
        max_calls=max_calls,
        prices=prices,
    )
    schema = _form(field) if field else None
    before = [Message("system", system)] if system else []
    models = Models(options, record)
    try:
        model = Scoped(models.get("llm"), lambda: (seed, "ask"))
        replies = [
            model.complete(
                [*before, Message("user", prompt)],
                schema=schema,
                sampling=Sampling(temperature),
                max_tokens=length,
            )
            for _ in range(samples)
        ]
    finally:
        models.close()
    if as_json:
        found = [
            {"text": r.text, "malformed": r.malformed, "usage": asdict(r.usage)} for r in replies
        ]
        output.print_json({"model": model.name, "replies": found})
    else:
        for reply in replies:
            output.say(reply.text, error=False)
            if reply.malformed:
                output.say("(malformed: it does not have the form that was asked for)")
    say_accounts(models.accounts())


@llm_app.command("probe", short_help="Find out what a server can do for a model.")
def probe(llm: LlmName = None, as_json: AsJson = False) -> None:
    """Ask the server one to three short questions: how it answers in JSON, what it refuses.

    \b
    Example:
      ldm llm probe --llm qwen2.5
    """
    options = ModelOptions.given(llm=llm)
    name = options.roles()["llm"]
    models = Models(options)
    try:
        found = asdict(models.client().capabilities(name))
    finally:
        models.close()
    where = connection().shown
    if as_json:
        output.print_json({"server": where, "model": name, **found})
        return
    output.say(f"{name} at {where}", error=False)
    for key, value in found.items():
        shown = {True: "yes", False: "refused", "": "refused"}.get(value, value)
        output.say(f"  {key}: {shown}", error=False)


@llm_app.command("usage", short_help="Show what recorded calls cost.")
def usage(
    recordings: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs or files.")],
    prices: PricesAt = None,
    as_json: AsJson = False,
) -> None:
    """Add up the calls of runs by role and model: tokens and, where prices are known, dollars.

    \b
    Example:
      ldm llm usage runs/RUN
    """
    from ldm.llm.meter import Limits, Meter, load_prices
    from ldm.llm.recording import read

    meter = Meter(Limits(), load_prices(prices))
    for path in recordings:
        meter.take(read(path))
    accounts = meter.accounts()
    if as_json:
        output.print_json({"accounts": [asdict(account) for account in accounts]})
        return
    rows = [
        (
            account.role,
            account.model,
            str(account.usage.calls),
            str(account.usage.prompt_tokens),
            str(account.usage.cached_tokens),
            str(account.usage.completion_tokens),
            "unknown" if account.usd is None else f"{account.usd:.4f}",
        )
        for account in accounts
    ]
    columns = ("role", "model", "calls", "prompt", "of it cached", "completion", "USD")
    output.print_table("Paid calls, in tokens", columns, rows)


def _form(specified: Sequence[str]) -> type[Any]:
    """A type with the fields that NAME:TYPE texts name."""
    from pydantic import create_model

    named: dict[str, Any] = {}
    for text in specified:
        name, _, kind = text.partition(":")
        if not name.isidentifier() or name.startswith("_") or (kind or "str") not in TYPES:
            raise LdmError(
                f"--field {text} is not NAME:TYPE.", f"For example --field age:int; {_known()}."
            )
        named[name] = (TYPES[kind or "str"], ...)
    made: type[Any] = create_model("Reply", **named)
    return made


def _known() -> str:
    return f"the types are {', '.join(TYPES)}"

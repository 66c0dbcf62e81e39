"""`ldm llm`: try a model, see what its server can do, and what calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.foretelling import SAMPLE, at_most, measured
from ldm.cli.models import (
    CacheAt,
    EstimateFirst,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    Models,
    PricesAt,
    ReplayOf,
    Timeout,
    connection,
    say_accounts,
)
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.llm import Message
    from ldm.llm.calls import Request

llm_app = typer.Typer(no_args_is_help=True, help="Try language models, and see what they cost.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
#: Bytes of what is said to be wrong with a reply, generously.
COMPLAINT = 1000
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
    timeout: Timeout = None,
    estimate: EstimateFirst = False,
    as_json: AsJson = False,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, in the way agents do.

    With --field the reply is a validated JSON object; a bad one is asked for once more. With
    --estimate some of several --samples are drawn and say what all will cost; for a single reply
    the most that it can cost is said and nothing is sent.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --field name:str --field warm:bool
      ldm llm ask "Name a colour." --llm qwen2.5 --temperature 0.8 --samples 5 --record asked
      ldm llm ask "Name a colour." --replay asked
      ldm llm ask "Name a colour." --llm gpt-4o-mini --temperature 1 --samples 500 --estimate
    """
    from ldm.llm import Message, Sampling, ScopedLLM

    options = ModelOptions.given(
        llm=llm,
        cache=cache,
        replay=replay,
        max_usd=max_usd,
        max_tokens=max_tokens,
        max_calls=max_calls,
        prices=prices,
        timeout=timeout,
    )
    schema = _form(field) if field else None
    before = [Message("system", system)] if system else []
    messages = [*before, Message("user", prompt)]
    drawn = samples
    if estimate:
        # Greedy replies are all the same one.
        drawn = min(SAMPLE, samples - 1) if temperature else 0
    if not drawn:
        calls = _calls(options.roles()["llm"], messages, schema, length)
        for line in at_most(calls, options):
            output.say(line, error=False)
        return
    models = Models(options, record)
    try:
        model = ScopedLLM(models.get("llm"), lambda: (seed, "ask"))
        replies = [
            model.complete(
                messages, schema=schema, sampling=Sampling(temperature), max_tokens=length
            )
            for _ in range(drawn)
        ]
    finally:
        models.close()
    if estimate:
        for line in measured([reply.usage for reply in replies], samples, options, "replies"):
            output.say(line, error=False)
        say_accounts(models.accounts())
        return
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
def probe(
    llm: LlmName = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
    estimate: EstimateFirst = False,
    as_json: AsJson = False,
) -> None:
    """Ask the server one or two short questions: how it answers in JSON, what it refuses.

    \b
    Example:
      ldm llm probe --llm qwen2.5
    """
    options = ModelOptions.given(llm=llm, prices=prices, timeout=timeout)
    name = options.roles()["llm"]
    if estimate:
        from ldm.llm.capabilities import MODES, probe_request

        for line in at_most([probe_request(name, mode) for mode in MODES[:-1]], options):
            output.say(line, error=False)
        return
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
    from ldm.llm.meter import CostLimits, Meter
    from ldm.llm.prices import load_prices
    from ldm.llm.recording import read_calls

    meter = Meter(CostLimits(), load_prices(prices))
    for path in recordings:
        meter.take(read_calls(path))
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


def _calls(
    llm: str, messages: Sequence[Message], schema: type[Any] | None, length: int
) -> list[Request]:
    """The calls of one reply: with a schema there may be a second, to repair it."""
    from ldm.llm.calls import Request
    from ldm.llm.structured import REPAIR_EXCERPT, form_of, repair_messages, with_json_instruction

    if schema is None:
        return [Request(llm, tuple(messages), max_tokens=length)]
    form = form_of(schema)
    worded = with_json_instruction(messages, form.schema)
    # The bound takes bytes as tokens.
    reply, complaint = "x" * min(length, REPAIR_EXCERPT), "x" * COMPLAINT
    again = repair_messages(worded, reply, complaint)
    return [Request(llm, words, form.schema, max_tokens=length) for words in (worded, again)]


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

"""`ldm llm`: try a model, see what its server can do, and what calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ldm.cli import output
from ldm.cli.environment import connection
from ldm.cli.options import (
    AsJson,
    EstimateFirst,
    Limits,
    LlmName,
    PricesAt,
    Recordings,
    Timeout,
    expanded,
    model_options,
)
from ldm.errors import LdmError
from ldm.llm.estimate import SAMPLE, bound_lines, cost_lines, reply_requests
from ldm.llm.models import Models, account_lines
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.llm import Completion, Message

llm_app = typer.Typer(no_args_is_help=True, help="Try language models and see what they cost.")

#: What --field understands.
TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list[str],
}


@dataclass(frozen=True)
class Question:
    """What is asked, and how replies are drawn."""

    heading: ClassVar[str] = QUESTION

    prompt: Annotated[str, typer.Argument(metavar="PROMPT")]
    llm: LlmName = None
    system: Annotated[str, typer.Option(help="System message.")] = ""
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:TYPE",
            help=f"Ask for JSON with this field; TYPE is {', '.join(TYPES)}.",
        ),
    ] = None
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")
    ] = 0.0
    samples: Annotated[int, typer.Option(min=1, help="Number of replies to draw.")] = 1
    length: Annotated[int, typer.Option(min=1, help="Maximum tokens per reply.")] = 512
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0
    record: Annotated[
        Path | None,
        typer.Option(
            help="Folder for recorded calls, which are never paid twice.", rich_help_panel=MODEL
        ),
    ] = None

    @property
    def messages(self) -> list[Message]:
        from ldm.llm import Message

        system = [Message("system", self.system)] if self.system else []
        return [*system, Message("user", self.prompt)]


@llm_app.command("ask", cls=GroupedCommand, short_help="Ask a model, once or several times.")
@expanded
def ask(
    question: Question,
    recordings: Recordings,
    limits: Limits,
    estimate: EstimateFirst = False,
    as_json: AsJson = False,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, as agents do.

    With --field, the reply is a validated JSON object; an invalid one is requested once more.
    --estimate draws some of several --samples and prints what all will cost; for a single reply it
    prints the maximum cost and sends nothing.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --field name:str --field warm:bool
      ldm llm ask "Name a colour." --llm qwen2.5 --temperature 0.8 --samples 5 --record asked
      ldm llm ask "Name a colour." --replay asked
      ldm llm ask "Name a colour." --llm gpt-4o-mini --temperature 1 --samples 500 --estimate
    """
    options = model_options(recordings, limits, llm=question.llm)
    schema = _form(question.field) if question.field else None
    drawn = question.samples
    if estimate:
        # Greedy replies are all the same one.
        drawn = min(SAMPLE, question.samples - 1) if question.temperature else 0
    if not drawn:
        calls = reply_requests(options.roles()["llm"], question.messages, schema, question.length)
        for line in bound_lines(calls, options):
            output.say(line, error=False)
        return
    models = Models(options, connection, question.record)
    try:
        replies = _replies(models, question, schema, drawn)
    finally:
        models.close()
    if estimate:
        usages = [reply.usage for reply in replies]
        for line in cost_lines(usages, question.samples, options, "replies"):
            output.say(line, error=False)
    elif as_json:
        listed = [
            {"text": r.text, "malformed": r.malformed, "usage": asdict(r.usage)} for r in replies
        ]
        output.print_json({"model": models.get("llm").name, "replies": listed})
    else:
        for reply in replies:
            output.say(reply.text, error=False)
            if reply.malformed:
                output.say("(malformed: not in the requested form)")
    for line in account_lines(models.accounts()):
        output.say(line)


def _replies(
    models: Models, question: Question, schema: type[Any] | None, count: int
) -> list[Completion]:
    """Draw replies to the question."""
    from ldm.llm import Sampling, ScopedLLM

    model = ScopedLLM(models.get("llm"), lambda: (question.seed, "ask"))
    return [
        model.complete(
            question.messages,
            schema=schema,
            sampling=Sampling(question.temperature),
            max_tokens=question.length,
        )
        for _ in range(count)
    ]


@llm_app.command("probe", short_help="Find out what a server can do for a model.")
def probe(
    llm: LlmName = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
    estimate: EstimateFirst = False,
    as_json: AsJson = False,
) -> None:
    """Find out with one or two short questions how the server replies in JSON and what it rejects.

    \b
    Example:
      ldm llm probe --llm qwen2.5
    """
    options = model_options(llm=llm, prices=prices, timeout=timeout)
    name = options.roles()["llm"]
    if estimate:
        from ldm.llm.capabilities import MODES, probe_request

        for line in bound_lines([probe_request(name, mode) for mode in MODES[:-1]], options):
            output.say(line, error=False)
        return
    models = Models(options, connection)
    try:
        capabilities = asdict(models.client().capabilities(name))
    finally:
        models.close()
    where = connection().display_url
    if as_json:
        output.print_json({"server": where, "model": name, **capabilities})
        return
    output.say(f"{name} at {where}", error=False)
    for key, value in capabilities.items():
        answer = {True: "yes", False: "refused", "": "refused", None: "unknown"}.get(value, value)
        output.say(f"  {key}: {answer}", error=False)


@llm_app.command("usage", short_help="Show what recorded calls cost.")
def usage(
    recordings: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs or files.")],
    prices: PricesAt = None,
    as_json: AsJson = False,
) -> None:
    """Add up the calls of runs by role and model: tokens and, where prices are known, dollars.

    Lines that are not calls are reported and skipped.

    \b
    Example:
      ldm llm usage runs/RUN
    """
    from ldm.llm.meter import CostLimits, Meter
    from ldm.llm.prices import load_prices
    from ldm.llm.recording import scan_calls
    from ldm.records import MOST_LISTED, Problem

    meter, problems = Meter(CostLimits(), load_prices(prices)), list[Problem]()
    for path in recordings:
        for call in scan_calls(path):
            if isinstance(call, Problem):
                problems.append(call)
            else:
                meter.take([call])
    for problem in problems[:MOST_LISTED]:
        output.say(str(problem))
    if problems:
        output.say(f"{counted(len(problems), 'invalid line')} skipped.")
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
    output.print_table("Usage of paid calls, in tokens", columns, rows)


def _form(specified: Sequence[str]) -> type[Any]:
    """Return a type with the fields that NAME:TYPE texts specify."""
    from pydantic import create_model

    fields: dict[str, Any] = {}
    for text in specified:
        name, _, kind = text.partition(":")
        if not name.isidentifier() or name.startswith("_") or (kind or "str") not in TYPES:
            raise LdmError(
                f"--field {text} is not NAME:TYPE.",
                f"For example --field age:int; the types are {', '.join(TYPES)}.",
            )
        fields[name] = (TYPES[kind or "str"], ...)
    reply: type[Any] = create_model("Reply", **fields)
    return reply

"""`ldm llm ask`: try a language model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.environment import connection
from ldm.cli.options import AsJson, LlmName
from ldm.llm.models import ModelOptions, Models, account_lines

llm_app = typer.Typer(no_args_is_help=True, add_completion=False, help="Try language models.")

#: Maximum tokens of a reply.
LENGTH = 512


@llm_app.callback()
def llm() -> None:
    """Try language models."""


@llm_app.command("ask", short_help="Ask a model.")
def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT")],
    llm: LlmName = None,
    system: Annotated[str, typer.Option(help="System message.")] = "",
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")
    ] = 0.0,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of recorded calls, shared with runs; none is paid twice."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, as agents do.

    The reply has at most 512 tokens; its cost is printed on standard error.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --temperature 0.8 --cache asked
    """
    from ldm.llm import Message, Sampling, ScopedLLM

    messages = [Message("system", system)] if system else []
    messages.append(Message("user", prompt))
    models = Models(ModelOptions(llm=llm, cache=str(cache) if cache else None), connection)
    try:
        model = ScopedLLM(models.get("llm"), lambda: ("ask",))
        reply = model.complete(messages, sampling=Sampling(temperature), max_tokens=LENGTH)
    finally:
        models.close()
    if as_json:
        value = {"model": model.name, "text": reply.text, "usage": asdict(reply.usage)}
        output.print_json(value)
    else:
        output.show(reply.text)
    output.say_all(account_lines(models.accounts()), error=True)

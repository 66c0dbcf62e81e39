"""`ldm llm ask`: try a language model and its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ldm.cli import output
from ldm.cli.environment import connection
from ldm.cli.options import LlmName

llm_app = typer.Typer(no_args_is_help=True, add_completion=False, help="Try language models.")
#: Maximum tokens of a reply.
LENGTH = 512
#: What the fields of a reply may be.
TYPES = {"str": str, "int": int, "float": float, "bool": bool}


@llm_app.callback()
def llm() -> None:
    """Try language models."""


@llm_app.command("ask", short_help="Ask a model.")
def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT")],
    llm: LlmName = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Field of the reply, NAME:TYPE; repeatable.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    max_calls: Annotated[int | None, typer.Option(help="Stop before more calls.")] = None,
    record: Annotated[Path | None, typer.Option(help="Folder to record calls in.")] = None,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, as agents do.

    The reply has at most 512 tokens beside the model's thoughts; its cost is printed on standard
    error.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --field colour:str --record asked
    """
    from pydantic import create_model

    from ldm.llm import Message, Sampling
    from ldm.llm.models import ModelOptions, Models

    named = dict(one.partition(":")[::2] for one in field or ())
    if wrong := set(named.values()) - TYPES.keys():
        raise typer.BadParameter(f"{wrong.pop()!r} is not one of {', '.join(TYPES)}.")
    fields: dict[str, Any] = {name: TYPES[kind] for name, kind in named.items()}
    form = create_model("Reply", **fields) if fields else None
    options = ModelOptions(llm=llm, max_calls=max_calls)
    question = [Message("user", prompt)]
    with Models(options, connection, record, output.say) as models:
        reply = models.get("llm").complete(
            question, sampling=Sampling(temperature), max_tokens=LENGTH, schema=form
        )
        output.show(reply.text)
        if reply.cut:
            output.say(f"The reply was cut off at {LENGTH} tokens, and again with more.")

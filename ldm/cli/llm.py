"""`ldm llm ask`: try a language model and its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.environment import connection
from ldm.cli.options import LlmName

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
    timeout: Annotated[float | None, typer.Option(help="Seconds a request [300].")] = None,
    record: Annotated[Path | None, typer.Option(help="Folder to record the call in.")] = None,
) -> None:
    """Ask the model of --llm, at the server of OPENAI_BASE_URL, as agents do.

    The reply has at most 512 tokens beside the model's thoughts; its cost is printed on standard
    error.

    \b
    Examples:
      ldm llm ask "Where would you look for a clean mug?" --llm gpt-4o-mini
      ldm llm ask "Name a colour." --llm qwen2.5 --record asked
    """
    from ldm.llm import Message
    from ldm.llm.models import ModelOptions, serving

    options = ModelOptions(llm=llm, timeout=timeout)
    with serving(options, connection, record, output.say) as models:
        output.show(models.get("llm").complete([Message("user", prompt)], max_tokens=LENGTH).text)

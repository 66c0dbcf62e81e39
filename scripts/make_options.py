"""Write docs/usage/options.md: every command with every option, as `--help-all` prints them.

    python scripts/make_options.py

tests/test_docs.py holds the page to the command line.
"""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from ldm.cli.app import app, every_command
from ldm.cli.options import HELP_ALL, SpecCommand

PAGE = Path(__file__).parents[1] / "docs" / "usage" / "options.md"
WIDTH = "100"
#: The first heading below a command's description.
HEADING = re.compile(r"^(?!Examples)[A-Z][\w ]*:$", re.M)
#: The same in all commands that have them.
MODELS = re.compile(r"\nOptions of models:\n.*?(?=\n\n|\Z)", re.S)
#: One option of a group, and the forms in which help pages write types and defaults.
ITEM = re.compile(r"^  (?=\S)", re.M)
TYPE = re.compile(r" (?:TEXT|PATH|NAME|N|X|A,B|<[^>]*>)(?= )|\[[^]]*\]$")
#: What `ldm refine` and `ldm eval` call the options of a decision.
PART = re.compile(r"^--(?:policy|agent)\.")
HELP = re.compile(r"(?:\nGeneral:)?\n  -h, --help .*")


def _is_new(item: str, words: str, listed: dict[str, str]) -> bool:
    """Return whether no command before this one has an option with the same name and meaning."""
    return listed.setdefault(PART.sub("--", TYPE.sub("", " ".join(item.split()))), words) == words


def page() -> str:
    """Return the page."""
    runner = CliRunner(env={"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH})
    parts = [
        "# Every option\n\nMade by `python scripts/make_options.py`. `ldm agents NAME` and "
        "`ldm envs NAME` list\nthe options of an agent (`--agent.NAME`) and an environment "
        "(`--env.NAME`); those of models\ncome once, at the end. An option that an earlier "
        "command has is named alone; `--agent.k`\nand the like are `--policy.k` of `ldm refine`.\n"
    ]
    models, listed = "", dict[str, str]()
    for words, command in every_command():
        flag = HELP_ALL if isinstance(command, SpecCommand) else "--help"
        text = HELP.sub("", runner.invoke(app, [*words.split(), flag]).output).strip()
        if shared := MODELS.search(text):
            models, text = shared[0].strip(), MODELS.sub("", text)
        usage, _, below = text.partition("\n")
        first = HEADING.search(below)
        own, known = list[str](), list[str]()
        for group in (below[first.start() :] if first else "").strip().split("\n\n"):
            heading, *items = ITEM.split(group)
            new = [item for item in items if _is_new(item, words, listed)]
            known += [item.split()[0].strip(",") for item in items if item not in new]
            if new or not items:
                own.append("  ".join([heading, *new]).rstrip())
        if known:
            own.append(f"As above: {' '.join(known)}")
        if not usage.endswith(f"{words} [OPTIONS]"):
            own.insert(0, usage)
        below = "\n\n".join(own).strip()
        parts.append(f"## ldm {words}\n\n```text\n{below}\n```\n")
    parts.append(f"## Models\n\n```text\n{models}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

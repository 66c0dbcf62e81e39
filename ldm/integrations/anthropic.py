"""Anthropic's memory tool: what a memory teaches, as files below /memories.

    client.beta.messages.run_tools(…, tools=[ExperienceFiles(experience)])

Each kind of task is a folder with rules.md and examples.md; those of tasks without a kind stand in
/memories itself. A model that wants to change a file is told that only episodes change them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

from ldm.integrations.experience import Experience
from ldm.prompts import one_line

ROOT = PurePosixPath("/memories")


class ExperienceFiles(BetaAbstractMemoryTool):
    """The rules and examples of an experience's scope, which a model may view."""

    def __init__(self, experience: Experience) -> None:
        """Take the memory, its scope, and the number and length of examples."""
        super().__init__()
        self._experience, self._where = experience, experience.scope or None

    def view(self, command: Any) -> str:
        """Return a file with its lines numbered, or a list of the files in a folder."""
        path, files = PurePosixPath(command.path), self._files()
        if text := files.get(path):
            first, last = getattr(command, "view_range", None) or (1, -1)
            end = None if last < 0 else last
            lines = [*enumerate(text().splitlines(), 1)][max(0, first - 1) : end]
            title = f"Here's the content of {path} with line numbers:"
            return "\n".join([title, *(f"{number:6}\t{line}" for number, line in lines)])
        inside = {one: len(text().encode()) for one, text in files.items() if path in one.parents}
        if not inside and path != ROOT:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        title = f"Here're the files and directories up to 2 levels deep in {path}:"
        sizes = [(path, sum(inside.values())), *sorted(inside.items())]
        return "\n".join([title, *(f"{size / 1024:.1f}K\t{one}" for one, size in sizes)])

    def create(self, command: Any) -> str:
        """Refuse to change a file, as all other commands do."""
        raise ToolError(
            "/memories is read-only: it shows what recorded episodes teach, and changes with them."
        )

    str_replace = insert = delete = rename = create

    def _files(self) -> dict[PurePosixPath, Callable[[], str]]:
        """Return what makes each file, by its path; names of kinds cannot leave the folder."""
        files = dict[PurePosixPath, Callable[[], str]]()
        for kind in self._experience.memory.kinds(where=self._where):
            folder = ROOT / quote(kind, safe=" ").replace(".", "%2E")
            files[folder / "rules.md"] = partial(self._rules, kind)
            files[folder / "examples.md"] = partial(self._examples, kind)
        return files

    def _rules(self, kind: str) -> str:
        rules = self._experience.memory.rules(kind, where=self._where)
        lines = [*rules.lines(), *(f"Not settled: {text}" for text in rules.contradictions)]
        return "\n".join(map(one_line, lines)) or "No rule holds yet."

    def _examples(self, kind: str) -> str:
        recall, k, where = self._experience.memory.recall, self._experience.k, self._where
        recalls = recall(kind, "", k, where=where, kind=kind, outcomes="success")
        return recalls.as_prompt(self._experience.max_tokens) or "None has worked yet."

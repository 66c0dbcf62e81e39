"""Stage the pages of the documentation site in a folder, for Zensical to build (`make docs`).

    python scripts/make_site.py FOLDER

Copies docs/, the project's own pages and what these link to, and writes the reference: a page for
each part of the package, with every public name. Links that leave docs/ are changed to the copies.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import ldm
import ldm.testing

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
#: Title of a page of the reference → the beginnings of the modules whose public names it holds.
PAGES = {
    "Memory": ("ldm.memory",),
    "Experiments": ("ldm.run", "ldm.config"),
    "Tasks and episodes": ("ldm.types", "ldm.episode", "ldm.envs"),
    "Agents and models": ("ldm.agents", "ldm.llm", "ldm.errors"),
    "Tests of your own classes": ("ldm.testing",),
}
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)\s]+)?\))")


def reference() -> dict[str, list[str]]:
    """Return the full names of all public objects by the title of their page."""
    public = [f"{module}.{name}" for name, module in ldm._MODULES.items()]
    public += [f"ldm.testing.{name}" for name in ldm.testing.__all__]
    return {
        title: sorted(name for name in public if name.startswith(beginnings))
        for title, beginnings in PAGES.items()
    }


def page_of(title: str) -> str:
    """Return the file name of a page of the reference."""
    return f"{title.lower().replace(' ', '-')}.md"


def stage(folder: Path) -> None:
    """Write all pages into `folder`, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    places = {ROOT / "README.md": folder / "index.md"}
    for name in PROJECT:
        if (ROOT / name).exists():
            places[ROOT / name] = folder / "project" / name.lower()
            places[ROOT / name].parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, places[ROOT / name])
    sources = {copy: source for source, copy in places.items() if copy.name != "index.md"}
    for page in sorted(folder.rglob("*.md")):
        source = sources.get(page, ROOT / "docs" / page.relative_to(folder))
        page.write_text(LINK.sub(_Relinked(page, source, folder, places), page.read_text("utf-8")))
    listed = []
    for title, names in reference().items():
        path = folder / "reference" / page_of(title)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n")
        words = ", ".join(f"`{name.rsplit('.', 1)[1]}`" for name in names)
        listed.append(f"- [{title}]({path.name}): {words}")
    text = "# Reference\n\nEvery public name, from its docstring.\n\n" + "\n".join(listed) + "\n"
    (folder / "reference" / "index.md").write_text(text)


class _Relinked:
    """Change a page's link to a file outside of docs/ to that file's copy."""

    def __init__(self, page: Path, source: Path, folder: Path, places: dict[Path, Path]) -> None:
        self._page, self._source, self._folder, self._places = page, source, folder, places

    def __call__(self, link: re.Match[str]) -> str:
        target = (self._source.parent / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            copy = self._folder / target.relative_to(ROOT / "docs")
        elif target in self._places:
            copy = self._places[target]
        elif target.is_file():
            copy = self._folder / "files" / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
        else:
            raise SystemExit(f"{self._source}: {link[2]} does not exist.")
        return f"{link[1]}{os.path.relpath(copy, self._page.parent)}{link[3]}"


if __name__ == "__main__":
    stage(Path(sys.argv[1]))

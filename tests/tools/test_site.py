"""The reference of the documentation site holds every public name, with a docstring."""

import importlib
import inspect
import runpy
from pathlib import Path

import ldm
import ldm.testing

SITE = runpy.run_path(str(Path(ldm.__file__).parents[1] / "scripts" / "make_site.py"))


def test_every_public_name_is_on_one_page_of_the_reference_with_a_docstring() -> None:
    listed = [name for names in SITE["reference"]().values() for name in names]
    public = {name for name in ldm.__all__ if not name.startswith("__")} | {*ldm.testing.__all__}
    assert sorted(name.rsplit(".", 1)[1] for name in listed) == sorted(public)
    for name in listed:
        module, _, attribute = name.rpartition(".")
        documented = getattr(importlib.import_module(module), attribute)
        if callable(documented):
            assert inspect.getdoc(documented), f"{name} has no docstring"


def test_links_that_leave_docs_lead_to_copies(tmp_path: Path) -> None:
    SITE["stage"](tmp_path / "pages")
    pages = tmp_path / "pages"
    assert (pages / "project" / "contributing.md").exists()
    for page in pages.rglob("*.md"):
        for link in SITE["LINK"].finditer(page.read_text("utf-8")):
            assert (page.parent / link[2]).exists(), f"{page}: {link[2]}"

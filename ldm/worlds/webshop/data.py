"""Check and download the official files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.download import published
from ldm.envs.metadata import DataCheck
from ldm.records import Problem
from ldm.worlds.webshop.catalogue import Drawer, Files, read_products

#: Products of the full set, and crowd-sourced instructions (WebShop, arXiv 2207.01206, §1).
PUBLISHED = {"products": 1_181_436, "human instructions": 12_087}
FILES = published(__file__)


def check(path: Path) -> DataCheck:
    """Read every product below `path`. Raise LdmError if a file is missing or is not JSON."""
    human = any(path.glob("items_human_ins*.json*"))
    read = Files.find(path, human=human)
    categories: Counter[str] = Counter()
    problems: dict[tuple[int, str, str], Problem] = {}
    goals = {"synthetic": _goals(Files.find(path, human=False), problems, categories)}
    if human:
        goals["human"] = _goals(read, problems, Counter())
    facts = {
        "files": [file.name for file in read],
        "products": categories.total(),
        "categories": dict(sorted(categories.items())),
        "goals": goals,
        "published": PUBLISHED,
    }
    return DataCheck("webshop", path, facts=facts, problems=tuple(problems.values()))


def _goals(
    files: Files, problems: dict[tuple[int, str, str], Problem], categories: Counter[str]
) -> int:
    """Return the number of goals; add to the problems, and to the products by category."""
    drawer = Drawer()
    for product in read_products(files):
        if isinstance(product, Problem):
            problems.setdefault((product.line, product.field, product.message), product)
        else:
            drawer.take(product)
            categories[product.category] += 1
    return int(drawer.finish().counts.sum())


def files(path: Path) -> Files:
    """Return the files of synthetic goals. Raise LdmError if one is missing."""
    return Files.find(path, human=False)

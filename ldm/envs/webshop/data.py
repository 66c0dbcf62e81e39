"""Check and download the official files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.download import RemoteFile
from ldm.envs.metadata import DataReport
from ldm.envs.webshop.catalogue import Files, read_products
from ldm.envs.webshop.goals import Drawer
from ldm.errors import LdmError
from ldm.records import Problem

#: The address that the official setup script downloads from; `confirm` skips the page that asks
#: whether to download a file that is too large for a virus scan.
_URL = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
#: Products of the full set, and crowd-sourced instructions (WebShop, arXiv 2207.01206, §1).
PUBLISHED = {"products": 1_181_436, "human instructions": 12_087}
_HUMAN = RemoteFile(f"{_URL}14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O", "items_human_ins.json")
#: The files of each size, as the official setup script names them.
FILES = {
    "small": (
        RemoteFile(f"{_URL}1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib", "items_shuffle_1000.json"),
        RemoteFile(
            f"{_URL}1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
            "items_ins_v2_1000.json",
            "f88a36314a397b53b3d9c3fa5878e5f7b26d35019a51ec83fbedeca61a948f6f",
        ),
        _HUMAN,
    ),
    "all": (
        RemoteFile(f"{_URL}1A2whVgOO0euk5O13n2iYDM0bQRkkRduB", "items_shuffle.json"),
        RemoteFile(f"{_URL}1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi", "items_ins_v2.json"),
        _HUMAN,
    ),
}


def check(path: Path) -> DataReport:
    """Read every product below `path`. Raise LdmError if a file is missing or is not JSON."""
    if not path.is_dir():
        raise LdmError(
            f"{path} is not a folder.",
            "Use the folder that holds items_shuffle*.json, or download it: "
            "ldm data webshop --to FOLDER.",
        )
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
    return DataReport("webshop", path, facts=facts, problems=tuple(problems.values()))


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

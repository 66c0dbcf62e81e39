"""Check and download the official files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.envs import download
from ldm.envs.download import Progress
from ldm.envs.metadata import Fetched
from ldm.envs.webshop.catalogue import Files, read_products
from ldm.envs.webshop.goals import Drawer
from ldm.errors import LdmError
from ldm.records import Problem

#: The address that the official setup script downloads from; `confirm` skips the page that asks
#: whether to download a file that is too large for a virus scan.
URL = "https://drive.usercontent.google.com/download?export=download&confirm=t&id={id}"
#: Products of the full set, and crowd-sourced instructions (WebShop, arXiv 2207.01206, §1).
PUBLISHED = {"products": 1_181_436, "human instructions": 12_087}


@dataclass(frozen=True, slots=True)
class Published:
    """An official file. id: on Google Drive. sha256, size: "" and 0 if they are unknown."""

    name: str
    id: str
    sha256: str = ""
    size: int = 0


_HUMAN = Published("items_human_ins.json", "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O")
#: The files of each size, as the official setup script names them.
FILES: Mapping[str, tuple[Published, ...]] = {
    "small": (
        Published("items_shuffle_1000.json", "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib"),
        Published(
            "items_ins_v2_1000.json",
            "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
            "f88a36314a397b53b3d9c3fa5878e5f7b26d35019a51ec83fbedeca61a948f6f",
            147_099,
        ),
        _HUMAN,
    ),
    "all": (
        Published("items_shuffle.json", "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB"),
        Published("items_ins_v2.json", "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi"),
        _HUMAN,
    ),
}


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of a data folder.

    files: those that are read. products: the number of valid products, by category. synthetic,
    human: the number of goals; human is None if there are no human instructions.
    """

    root: Path
    files: tuple[str, ...]
    products: Mapping[str, int]
    synthetic: int
    human: int | None
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"WebShop products in {self.root}"
        yield f"  files: {', '.join(self.files)}"
        by_category = ", ".join(f"{name} {count}" for name, count in self.products.items())
        total = sum(self.products.values())
        yield f"  products: {total} of {PUBLISHED['products']} published ({by_category})"
        yield f"  synthetic goals: {self.synthetic}"
        if self.human is None:
            yield "  human goals: none, as there is no items_human_ins.json"
        else:
            published = PUBLISHED["human instructions"]
            yield f"  human goals: {self.human} of {published} instructions published"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": "webshop",
            "path": str(self.root),
            "files": list(self.files),
            "products": sum(self.products.values()),
            "categories": dict(self.products),
            "synthetic_goals": self.synthetic,
            "human_goals": self.human,
            "published": PUBLISHED,
            "problems": [
                {"file": p.file, "line": p.line, "field": p.field, "message": p.message}
                for p in self.problems
            ],
        }


def check(path: Path) -> Report:
    """Read every product below `path`. Raise LdmError if a file is missing or is not JSON."""
    if not path.is_dir():
        raise LdmError(
            f"{path} is not a folder.",
            "Use the folder that holds items_shuffle*.json, or download it: ldm data get webshop.",
        )
    plain = Files.find(path, human=False)
    categories: Counter[str] = Counter()
    problems: dict[tuple[int, str, str], Problem] = {}
    synthetic = _count(plain, problems, categories)
    human = None
    if any(path.glob("items_human_ins*.json*")):
        human = _count(Files.find(path, human=True), problems)
    names = tuple(file.name for file in Files.find(path, human=human is not None))
    counts = dict(sorted(categories.items()))
    return Report(path, names, counts, synthetic, human, tuple(problems.values()))


def _count(
    files: Files,
    problems: dict[tuple[int, str, str], Problem],
    categories: Counter[str] | None = None,
) -> int:
    """Return the number of goals; add to `problems` and to the product counts in `categories`."""
    drawer = Drawer()
    for product in read_products(files):
        if isinstance(product, Problem):
            problems.setdefault((product.line, product.field, product.message), product)
            continue
        drawer.take(product)
        if categories is not None:
            categories[product.category] += 1
    return int(drawer.finish().counts.sum())


def summary(path: Path) -> str:
    """Return the files that are read, with their sizes. Raise LdmError if one is missing."""
    files = Files.find(path, human=False)
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in files)
    return f"{path}; {sizes}"


def fetch(
    destination: Path,
    *,
    size: str = "small",
    url: str = "",
    sha256: str = "",
    progress: Progress | None = None,
) -> tuple[Fetched, ...]:
    """Download the official files of a size.

    An interrupted download is resumed, and an existing file is not downloaded again.
    url: the folder of a mirror that has the files under their names. sha256: expected checksums of
    all files, in the order of FILES, separated by commas. Raise LdmError if a download or a
    checksum is bad, or if the server sends a web page instead of a file.
    """
    files = FILES[size]
    checksums = download.checksums_of(sha256, [file.name for file in files])
    downloads = []
    for number, file in enumerate(files):
        expected = checksums[number] if checksums else "" if url else file.sha256
        address = f"{url.rstrip('/')}/{file.name}" if url else URL.format(id=file.id)
        target = destination / file.name
        digest = download.fetch(address, target, sha256=expected, progress=progress)
        _refuse_page(target, address)
        downloads.append(Fetched(digest, bool(expected), file.name))
    return tuple(downloads)


def _refuse_page(file: Path, address: str) -> None:
    """Remove the file and raise LdmError if it does not start like JSON."""
    with file.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start not in (b"[", b"{"):
        file.unlink()
        raise LdmError(
            f"{address} sent a web page instead of {file.name}.",
            "Google Drive limits how often a file is downloaded. Try again later, download it with "
            f"a browser into {file.parent}, or pass the address of a mirror with --url.",
        )

"""Check and download the official games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.envs import download
from ldm.envs.alfworld.fast import FastEngine
from ldm.envs.alfworld.games import (
    FILE,
    KINDS,
    OFFICIAL_SPLITS,
    Game,
    Skipped,
    data_root,
    scan_split,
)
from ldm.envs.download import Progress, unpack
from ldm.envs.metadata import Fetched
from ldm.errors import LdmError
from ldm.records import Problem

#: Number of games that the published runners play, by split (ALFWorld, arXiv 2010.03768, Table 1).
PUBLISHED = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}

#: All games of the three splits, in the new grammar; no other file is needed to play.
URL = "https://github.com/alfworld/alfworld/releases/download/0.4.2/json_2.1.3_tw-pddl.zip"


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of a data folder.

    counts: split → kind → number of playable games, for the splits that are present.
    skipped: split → reason → number of games that the published set leaves out.
    """

    root: Path
    counts: Mapping[str, Mapping[str, int]]
    skipped: Mapping[str, Mapping[str, int]]
    problems: tuple[Problem, ...]

    def total(self, split: str) -> int:
        return sum(self.counts.get(split, {}).values())

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"ALFWorld games in {self.root}"
        for split, kinds in self.counts.items():
            by_kind = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            yield f"  {split}: {self.total(split)} of {PUBLISHED[split]} published ({by_kind})"
            for reason, count in self.skipped[split].items():
                yield f"    left out, as published: {count} ({reason})"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": "alfworld",
            "path": str(self.root),
            "splits": {
                split: {
                    "games": self.total(split),
                    "published": PUBLISHED[split],
                    "kinds": dict(kinds),
                    "skipped": dict(self.skipped[split]),
                }
                for split, kinds in self.counts.items()
            },
            "problems": [
                {"file": p.file, "line": p.line, "field": p.field, "message": p.message}
                for p in self.problems
            ],
        }


def check(path: Path) -> Report:
    """Read and start every game below `path`. Raise LdmError if none of the splits is present."""
    root = data_root(path)
    counts: dict[str, dict[str, int]] = {}
    skipped: dict[str, dict[str, int]] = {}
    problems: list[Problem] = []
    for split in OFFICIAL_SPLITS:
        if not (root / split).is_dir():
            continue
        kinds: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for game in scan_split(root, split):
            if isinstance(game, Problem):
                problems.append(game)
            elif isinstance(game, Skipped):
                reasons[game.reason] += 1
            elif flaw := _unplayable(game):
                file = root / game.id / FILE
                problems.append(Problem(str(file), 1, "", flaw))
            else:
                kinds[game.kind] += 1
        counts[split] = {kind: kinds[kind] for kind in KINDS.values()}
        skipped[split] = dict(sorted(reasons.items()))
    return Report(root, counts, skipped, tuple(problems))


def _unplayable(game: Game) -> str:
    """Return why a game cannot be started and listed, "" if it can."""
    engine = FastEngine()
    try:
        engine.start(game)
    except LdmError as error:
        return error.message
    return ""


def summary(path: Path) -> str:
    """Return how many game files each split has. Raise LdmError if no split is present."""
    root = data_root(path)
    counts = {
        split: sum(1 for _ in (root / split).glob(f"*/*/{FILE}")) for split in OFFICIAL_SPLITS
    }
    return f"{root}; game files: {', '.join(f'{split} {n}' for split, n in counts.items())}"


def fetch(
    destination: Path,
    *,
    size: str = "",
    url: str = "",
    sha256: str = "",
    progress: Progress | None = None,
) -> tuple[Fetched, ...]:
    """Download the official archive and unpack it below `destination`.

    An interrupted download is resumed. The archive is removed after unpacking. size: ignored, as
    there is only one. Raise LdmError if the download, the checksum or the archive is bad.
    """
    address = url or URL
    name = address.rsplit("/", 1)[-1].split("?", 1)[0]
    if name in ("", ".", ".."):
        raise LdmError(f"{address} names no archive.", "Give the archive's full address.")
    archive = destination / name
    digest = download.fetch(address, archive, sha256=sha256, progress=progress)
    try:
        unpack(archive, destination, progress=progress)
    finally:
        archive.unlink()  # also a bad one, or it would be taken for the download the next time
    return (Fetched(digest, bool(sha256)),)

"""Check and download the official games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ldm.envs.download import published
from ldm.envs.metadata import DataCheck
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.worlds.alfworld import games
from ldm.worlds.alfworld.feedback import FastEngine
from ldm.worlds.alfworld.games import FILE, OFFICIAL_SPLITS, Game, Skipped

#: Number of games that the published runners play, by split (ALFWorld, arXiv 2010.03768, Table 1).
PUBLISHED = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
FILES = published(__file__)


def check(path: Path) -> DataCheck:
    """Read and start every game below `path`. Raise LdmError if none of the splits is present."""
    root = games.data_root(path)
    counts: dict[str, dict[str, int]] = {}
    left_out: dict[str, dict[str, int]] = {}
    problems: list[Problem] = []
    for split in OFFICIAL_SPLITS:
        if not (root / split).is_dir():
            continue
        kinds: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for game in games.scan_split(root, split):
            if isinstance(game, Problem):
                problems.append(game)
            elif isinstance(game, Skipped):
                reasons[game.reason] += 1
            elif flaw := _flaw(game):
                problems.append(Problem(str(root / game.id / FILE), 1, "", flaw))
            else:
                kinds[game.kind] += 1
        counts[split] = {kind: kinds[kind] for kind in games.KINDS.values()}
        left_out[split] = dict(sorted(reasons.items()))
    facts = {"published": PUBLISHED, "left_out_as_published": left_out}
    return DataCheck(games.ENV, root, counts, facts, tuple(problems))


def _flaw(game: Game) -> str:
    """Return why a game cannot be started, "" if it can."""
    try:
        FastEngine().start(game)
    except LdmError as error:
        return error.message
    return ""


def files(path: Path) -> Iterator[Path]:
    """Yield the files of all games, the left out ones included.

    Raise LdmError if no split is present.
    """
    for split in OFFICIAL_SPLITS:
        yield from (games.data_root(path) / split).glob(f"*/*/{FILE}")

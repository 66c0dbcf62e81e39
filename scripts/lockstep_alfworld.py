"""Play games in both engines in parallel, compare all texts, command lists and ends; print totals.

    python scripts/lockstep_alfworld.py ../shared/data/alfworld --log lockstep.jsonl [--workers 2]

Each game is played with a shortest solution, then with random walks; a game takes about 5 seconds,
nearly all of them in the official engine, although its parses are cached. The log gets one line per
game; the script resumes if started again with the same log. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.worlds.alfworld.games import OFFICIAL_SPLITS, Game, data_root, own_games, scan_split
from tools.alfworld.engine_comparison import EngineComparison, Tally


def main() -> None:
    """Parse the arguments, play, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", help="the folder with json_2.1.1, or own for our own games")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--games", type=int, default=0, help="number of games, evenly spread; 0: all"
    )
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--length", type=int, default=60, help="steps of a walk")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--log",
        type=Path,
        help="a line for each finished game; names the games to skip when resumed",
    )
    arguments = parser.parse_args()
    games = all_games(arguments.data)
    if arguments.games:
        games = games[:: max(1, len(games) // arguments.games)][: arguments.games]
    setting = {name: getattr(arguments, name) for name in ("walks", "length", "seed")}
    tallies = dict(read_log(arguments.log, setting))
    start = time.perf_counter()
    play = EngineComparison(arguments.walks, arguments.length, arguments.seed).play
    # In an arbitrary order, so that an interrupted run is a fair sample.
    remaining = sorted((g for g in games if g.digest not in tallies), key=lambda game: game.digest)
    pool = Parallel(n_jobs=arguments.workers, return_as="generator_unordered")
    for game, tally in pool(delayed(lambda game: (game, play(game)))(game) for game in remaining):
        tallies[game.digest] = tally
        if arguments.log:
            line = {"game": game.id, "digest": game.digest, **setting, **asdict(tally)}
            with arguments.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    tally = sum((tallies[game.digest] for game in games), Tally())
    print(
        f"games {len(games)}, solved {tally.solved}, steps {tally.steps} "
        f"(invalid {tally.invalid}), differences {len(tally.differences)}, "
        f"{time.perf_counter() - start:.0f} s"
    )
    print("\n".join(tally.differences[:20]))
    sys.exit(bool(tally.differences))


def read_log(log: Path | None, setting: dict[str, int]) -> Iterator[tuple[str, Tally]]:
    """Yield (digest, tally) of each game in a log that was played with this setting."""
    if log is None or not log.exists():
        return
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if all(entry[name] == value for name, value in setting.items()):
            counts = {name: entry[name] for name in ("steps", "invalid", "solved")}
            yield entry["digest"], Tally(**counts, differences=tuple(entry["differences"]))


def all_games(place: str) -> list[Game]:
    """Return the games of a data folder, or our own."""
    if place == "own":
        return [*own_games("demo_train"), *own_games("demo_test")]
    root = data_root(Path(place))
    entries = [game for split in OFFICIAL_SPLITS for game in scan_split(root, split)]
    return [game for game in entries if isinstance(game, Game)]


if __name__ == "__main__":
    main()

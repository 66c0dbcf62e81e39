"""Generate the expert's tabletop episodes (reproducible to the byte), and pictures of one.

    python scripts/make_tabletop.py
    python scripts/make_tabletop.py --pictures .ldm/tabletop

Writes data/trajectories/tabletop/train.jsonl.gz: an episode of each task of the training split.
The tasks of all splits are solved, and every episode is replayed. With --pictures it draws the
episodes of the first test number instead, and one picture of a whole pyramid.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.worlds.tabletop import Tabletop, TabletopOptions
from ldm.worlds.tabletop.pictures import png
from ldm.worlds.tabletop.tasks import SPLITS, TEST, TRAIN, game_of
from tools.replaying import replay
from tools.tabletop.expert import solve
from tools.tabletop.montage import episode_picture

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories" / "tabletop"


def main() -> None:
    """Write the episodes of the training split, or pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw pictures instead")
    folder = parser.parse_args().pictures
    if folder is None:
        write_episodes()
    else:
        draw(folder)


def write_episodes() -> None:
    """Solve the tasks of all splits, replay them, and write those of the training split."""
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    env = Tabletop()
    for split in SPLITS:
        episodes = [solve(env, task) for task in env.tasks(split)]
        for episode in episodes:
            replay(env, episode)
        if split == TRAIN:
            records.write(TRAJECTORIES / "train.jsonl.gz", episodes)
        lengths = [len(episode.steps) for episode in episodes]
        print(f"{split}: {len(episodes)} tasks, expert steps {mean(lengths):.1f}, "
              f"at most {max(lengths)}")  # fmt: skip


def draw(folder: Path) -> None:
    """Draw the first test episode of each kind, and the pyramid's as one picture."""
    env = Tabletop(TabletopOptions(render=str(folder)))
    tasks = [task for task in env.tasks(TEST) if task.source.endswith(f":{SPLITS[TEST][0]}")]
    for task in tasks:
        episode = solve(env, task)
        print(f"{task.id}: {len(episode.steps) + 1} pictures in {folder}")
    path = folder / "episode.png"
    path.write_bytes(png(episode_picture(game_of(tasks[-1]).scene, episode)))
    print(path)


if __name__ == "__main__":
    main()

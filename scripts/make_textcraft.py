"""Generate the expert's TextCraft episodes (reproducible to the byte).

    python scripts/make_textcraft.py

Writes data/trajectories/textcraft/train.jsonl.gz: an episode of each item of the training split.
Every task of both splits is solved by the exact solver and by the expert, and every episode is
replayed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.worlds.textcraft import TextCraft
from tools.replaying import replay
from tools.textcraft.expert import solve
from tools.textcraft.solver import listed, plan

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories" / "textcraft"


def main() -> None:
    """Write the episodes of the training split; print the lengths of both splits' episodes."""
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    env = TextCraft()
    for split in ("train", "test"):
        # The test split is solved too, to prove that it can be; its episodes are not stored.
        episodes = [solve(env, task) for task in env.tasks(split)]
        shortest = [len(plan(e.task.source, listed(e.opening), env.book)) for e in episodes]
        for episode in episodes:
            replay(env, episode)
        if split == "train":
            records.write(TRAJECTORIES / "train.jsonl.gz", episodes)
        lengths = [len(episode.steps) for episode in episodes]
        print(
            f"{split}: {len(episodes)} tasks, expert steps {mean(lengths):.1f} (at most "
            f"{max(lengths)}), shortest {mean(shortest):.1f} (at most {max(shortest)})"
        )


if __name__ == "__main__":
    main()

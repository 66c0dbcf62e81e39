"""Generate HotpotQA's own world and the expert's episodes in it (reproducible to the byte).

    python scripts/make_hotpotqa.py

Writes ldm/envs/hotpotqa/demo/ (articles and questions) and data/trajectories/hotpotqa/, an episode
of each training question. Every question of both splits is answered by the expert, and every
episode is replayed.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.envs.hotpotqa import HotpotQA
from ldm.envs.hotpotqa.library import OWN_DATA
from ldm.types import Trajectory
from tools.hotpotqa.expert import solve
from tools.hotpotqa.world_generator import generate

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories" / "hotpotqa"


def main() -> None:
    """Write articles, questions and episodes; print the lengths of both splits' episodes."""
    world = generate()
    shutil.rmtree(OWN_DATA, ignore_errors=True)
    OWN_DATA.mkdir(parents=True)
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    _write("wiki_articles.json.gz", world.articles)
    for split, questions in world.questions.items():
        _write(f"{split}.json.gz", questions)
    env = HotpotQA()
    for split, questions in world.questions.items():
        tasks = env.tasks(split)
        episodes = [
            solve(env, task, entry, world.articles)
            for task, entry in zip(tasks, questions, strict=True)
        ]
        for episode in episodes:
            replay(env, episode)
        if split == "demo_train":
            records.write(TRAJECTORIES / "demo_train.jsonl.gz", episodes)
        lengths = [len(episode.steps) for episode in episodes]
        print(
            f"{split}: {len(episodes)} questions, expert steps {min(lengths)} to {max(lengths)}, "
            f"on average {mean(lengths):.1f}"
        )


def replay(env: HotpotQA, episode: Trajectory) -> None:
    """Play an episode again; exit if an answer differs."""
    answers = [env.reset(episode.task).observation]
    answers += [env.step(step.action).observation for step in episode.steps]
    if answers != [episode.opening, *(step.observation for step in episode.steps)]:
        sys.exit(f"A replay of {episode.task.id} differs.")


def _write(name: str, content: Any) -> None:
    """Write packed JSON without a name or time in its header, so that the bytes stay the same."""
    text = json.dumps(content, ensure_ascii=False, indent=0).encode()
    (OWN_DATA / name).write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()

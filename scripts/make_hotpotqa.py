"""Generate HotpotQA's own world and the expert's episodes in it (reproducible to the byte).

    python scripts/make_hotpotqa.py

Writes ldm/worlds/hotpotqa/demo/ (articles, questions) and data/trajectories/hotpotqa/, an episode
of each training question. Every question of both splits is answered by the expert, and every
episode is replayed.

    python scripts/make_hotpotqa.py --official $HOTPOTQA_DATA --out .ldm/expert/hotpotqa.jsonl

writes the expert's episodes of the official training questions instead. They quote HotpotQA and
Wikipedia: whoever passes them on, or a memory of them, does so under CC BY-SA 4.0.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.errors import LdmError
from ldm.worlds.hotpotqa import HotpotQA, HotpotQAOptions
from ldm.worlds.hotpotqa.environment import LICENCE
from ldm.worlds.hotpotqa.library import OWN_DATA
from tools.hotpotqa.expert import official_texts, solve
from tools.hotpotqa.world_generator import generate
from tools.replaying import replay

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories" / "hotpotqa"


def main() -> None:
    """Write our own world, or the episodes of official questions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--official", type=Path, help="folder of the official files")
    parser.add_argument("--split", default="train")
    parser.add_argument("--out", type=Path, default=Path(".ldm/expert/hotpotqa.jsonl"))
    arguments = parser.parse_args()
    if arguments.official:
        make_official(arguments.official, arguments.split, arguments.out)
    else:
        make_own()


def make_official(folder: Path, split: str, out: Path) -> None:
    """Write the expert's episodes of an official split; name the questions it cannot answer."""
    env = HotpotQA(HotpotQAOptions(data=str(folder)))
    articles, entries = official_texts(folder)
    episodes = []
    for task in env.tasks(split):
        try:
            episodes.append(solve(env, task, entries[task.id.partition("/")[2]], articles))
        except LdmError as error:
            print(f"{task.id}: {error}", file=sys.stderr)
    out.parent.mkdir(parents=True, exist_ok=True)
    records.write(out, episodes)
    print(f"{len(episodes)} episodes → {out} ({LICENCE})")


def make_own() -> None:
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


def _write(name: str, content: Any) -> None:
    """Write packed JSON without a name or time in its header, so that the bytes stay the same."""
    text = json.dumps(content, ensure_ascii=False, indent=0).encode()
    (OWN_DATA / name).write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()

"""Generate the demonstrations for prompts from our recorded episodes (reproducible to the byte).

    python scripts/make_demonstrations.py

Reads data/trajectories/, writes ldm/agents/demonstrations/ENV.jsonl and ENV.plans.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents.demonstrations import SHIPPED
from ldm.types import Trajectory
from tools.demonstrations import RULES, demonstrations

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories"


def main() -> None:
    """Write the files of every environment."""
    for env, rules in RULES.items():
        episodes, plans = demonstrations(rules, records.read(TRAJECTORIES / rules.file, Trajectory))
        records.write(SHIPPED / f"{env}.jsonl", episodes)
        text = json.dumps(plans, indent=1, ensure_ascii=False) + "\n"
        (SHIPPED / f"{env}.plans.json").write_text(text, encoding="utf-8")
        for episode in episodes:
            print(f"{env} {episode.task.kind}: {episode.task.goal} ({len(episode.steps)} steps)")


if __name__ == "__main__":
    main()

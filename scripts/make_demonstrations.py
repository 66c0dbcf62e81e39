"""Generate the demonstrations for prompts (reproducible to the byte).

    python scripts/make_demonstrations.py

Reads data/trajectories/ and plays in our own games, shop and recipes. Writes
ldm/agents/demonstrations/ENV.jsonl (whole tasks), ENV.skills.jsonl (atomic skills),
ENV.plans.jsonl (how tasks divide) and ENV.rounds.json (plans in rounds).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents.demonstrations import DIVISIONS as DIVISION_FILE
from ldm.agents.demonstrations import SHIPPED
from ldm.agents.demonstrations import SKILLS as SKILL_FILE
from ldm.deps.styles import ROUNDS
from ldm.types import Trajectory
from tools.demonstrations import RULES, demonstrations
from tools.planner_examples import DIVISIONS
from tools.planner_rounds import ROUNDS as PLANNED
from tools.planner_rounds import played_rounds, text_of
from tools.skill_demonstrations import SKILLS

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories"


def main() -> None:
    """Write the files of every environment."""
    for env, rules in RULES.items():
        episodes = demonstrations(rules, records.read(TRAJECTORIES / rules.file, Trajectory))
        skills = SKILLS[env].demonstrations() if env in SKILLS else []
        records.write(SHIPPED / f"{env}.jsonl", episodes)
        if skills:
            records.write(SHIPPED / f"{env}{SKILL_FILE}", skills)
        if env in DIVISIONS:
            records.write(SHIPPED / f"{env}{DIVISION_FILE}", DIVISIONS[env]())
        for episode in [*episodes, *skills]:
            print(f"{env} {episode.task.kind}: {episode.task.goal} ({len(episode.steps)} steps)")
    for name in PLANNED:
        trials, rounds = played_rounds(name)
        if name not in RULES:
            records.write(SHIPPED / f"{name}.jsonl", trials)
        (SHIPPED / f"{name}{ROUNDS}").write_text(text_of(rounds), encoding="utf-8")
        print(f"{name}: {', '.join(f'{task} in {len(own)} plans' for task, own in rounds.items())}")


if __name__ == "__main__":
    main()

"""Recorded episodes as chat messages, for fine-tuning.

Of each episode the trial that counts is written.
"""

from __future__ import annotations

from pathlib import Path

from ldm.envs import formats
from ldm.errors import LdmError
from ldm.records import writing
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.types import Trajectory


def export(run: ReadRun, path: Path) -> int:
    """Write the episodes of a run to a JSONL file of chat messages; return their number.

    Episodes that failed before the first step are left out.
    Raise LdmError if the run has no episodes, or the file cannot be written.
    """
    episodes = run.episodes()
    if not episodes:
        raise LdmError(f"{run.run.directory} has no episodes.", "Name an evaluation.")
    with writing(path):
        trials = [trial for one in episodes if (trial := submitted(one)) is not None]
        formats.write(path, trials, "chat")
    return len(trials)


def submitted(episode: RecordedEpisode) -> Trajectory | None:
    """Return the trial that counts, or None."""
    place = episode.result.submitted
    return episode.trials[place] if 0 <= place < len(episode.trials) else None

"""A small memory for attacks."""

from pathlib import Path

from ldm.memory import build, generations, hide, inspect
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories


def small_memory(place: Path) -> Path:
    """A memory with two generations and some hidden tuples."""
    memory = str(place / "memory")
    build(memory, expert_trajectories(options=ToyOptions(tasks=6)), BagOfWords(), OfflineReasoner)
    base = generations(memory, "toy")[-1]
    tuples = [row.tuple.id for row in inspect(memory, "toy").rows][:2]
    hide(memory, base, tuples, settings={})
    return Path(memory)

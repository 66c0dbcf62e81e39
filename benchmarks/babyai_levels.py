"""Five other levels of BabyAI: the environment and the recorder of `babyai.py` of the worlds.

PYTHONPATH=WORLDS:. python benchmarks/babyai_levels.py --out levels/train.jsonl
PYTHONPATH=WORLDS:. ldm eval --env benchmarks.babyai_levels:BabyAI --memory MEMORY --split test
"""

from __future__ import annotations

import babyai
from babyai import BabyAI

LEVELS = {
    "putnext": "BabyAI-PutNextLocalS5N3-v0",
    "unlock": "BabyAI-UnlockLocalDist-v0",
    "two": "BabyAI-OpenTwoDoors-v0",
    "seq": "BabyAI-GoToSeqS5R2-v0",
    "find": "BabyAI-FindObjS5-v0",
}
babyai.LEVELS = LEVELS

__all__ = ["BabyAI"]

if __name__ == "__main__":
    import record_babyai

    record_babyai.LEVELS = LEVELS
    record_babyai.main()

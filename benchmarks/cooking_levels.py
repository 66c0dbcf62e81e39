"""Larger houses and longer recipes: the environment and the recorder of `cooking.py` of the worlds.

PYTHONPATH=WORLDS:. python benchmarks/cooking_levels.py --goal plain --games games --out train.jsonl
PYTHONPATH=WORLDS:. ldm eval --env benchmarks.cooking_levels:Cooking --memory MEMORY --split test
"""

from __future__ import annotations

import cooking
from cooking import Cooking

EVERYTHING = {"cook": True, "cut": True, "open": True}
#: As `cooking.KINDS`: things in a recipe, those to be fetched, and rooms.
KINDS = {
    "two": {"recipe": 2, "take": 2, "go": 1, "cook": True, "cut": True},
    "three": {"recipe": 3, "take": 3, "go": 6, **EVERYTHING},
    "nine": {"recipe": 1, "take": 1, "go": 9, **EVERYTHING},
    "twelve": {"recipe": 2, "take": 2, "go": 12, **EVERYTHING},
}
cooking.KINDS = KINDS

__all__ = ["Cooking"]

if __name__ == "__main__":
    import record_cooking

    record_cooking.main()

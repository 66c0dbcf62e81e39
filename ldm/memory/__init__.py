"""The memory of LDM²: trajectories become tuples, tuples are stored, indexed and recalled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """A snapshot of one environment's memory at one generation, ready for retrieval."""

    env: str
    generation: int

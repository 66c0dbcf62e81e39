"""Retrieval as `Retriever.search` describes it, by comparing every tuple; nothing is kept."""

from __future__ import annotations

import numpy as np

from ldm.memory.index import IndexedTuple
from ldm.memory.lessons import Contents
from ldm.memory.retrieval import DECIMALS

Vector = np.ndarray


def centroid(vectors: list[Vector]) -> Vector:
    mean: Vector = np.stack(vectors).mean(axis=0)
    mean /= max(float(np.linalg.norm(mean)), 1e-12)
    return mean


def nearest(centroids: list[Vector], vector: Vector) -> int:
    return int(np.argmax([np.round(np.vecdot(c, vector), DECIMALS) for c in centroids]))


def brute_force(
    contents: Contents, kind: str, query: Vector, k: int, goal_weight: float = 0.5
) -> list[tuple[str, float, str]]:
    """Return ids, similarities and fallbacks by comparing every tuple.

    query: (2, dimension), the vectors of goal and observation.
    """
    goal, observation = query
    dimension = len(goal)
    vectors = contents.rows.vectors_of(slice(None))
    rows = [
        (row, vector[:dimension], vector[dimension:])
        for row, vector in zip(contents.rows, vectors, strict=True)
    ]
    names = ("", "goal type", "batch")
    scopes: dict[str, list[tuple[IndexedTuple, Vector, Vector]]] = {name: [] for name in names}
    for batch in contents.batches:
        if batch.kind not in (kind, ""):
            continue
        members = [(r, g, o) for r, g, o in rows if r.batch == batch.id]
        formed = [(r, g, o) for r, g, o in members if r.tuple.generation == batch.generation]
        of_goals = [
            [(r, g, o) for r, g, o in formed if r.goal_type == i]
            for i in range(len(batch.goal_types))
        ]
        t = nearest([centroid([g for _, g, _ in part]) for part in of_goals], goal)
        cells = range(len(batch.goal_types[t].observation_types))
        below = [[o for r, _, o in of_goals[t] if r.observation_type == i] for i in cells]
        u = nearest([centroid(part) for part in below], observation)
        scopes["batch"] += members
        scopes["goal type"] += [one for one in members if one[0].goal_type == t]
        scopes[""] += [one for one in members if one[0].cell == (batch.id, t, u)]
    recalls, trajectories, texts = [], set(), set()
    for spread in (True, False):
        for fallback, candidates in scopes.items():
            scored = []
            for r, g, o in candidates:
                of_goal, of_sight = float(np.vecdot(g, goal)), float(np.vecdot(o, observation))
                similarity = goal_weight * of_goal + (1 - goal_weight) * of_sight
                scored.append((-round(similarity, DECIMALS), r))
            for similar, row in sorted(scored, key=lambda one: (one[0], one[1].tuple.id)):
                one = row.tuple
                text = one.goal, one.observation, one.action
                if text in texts or (spread and one.trajectory_id in trajectories):
                    continue
                trajectories.add(one.trajectory_id)
                texts.add(text)
                recalls.append((one.id, -similar, fallback))
    return recalls[:k]

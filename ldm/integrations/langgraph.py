"""LangGraph: a store of items whose search is a memory's.

    graph = builder.compile(store=ExperienceStore(memory))
    store.put(("desk", "a"), "1", {"goal": "refund a lamp", "observation": …, "action": …})

An item is any JSON object. Its fields goal and observation, if it has them, are what a query is
compared with, else the whole of it; its score (1 by default) is evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from langgraph.store import base

from ldm.memory.growing import GrowingMemory
from ldm.text import parse_json

#: The most items that a filter, an offset or a list of namespaces looks through.
MOST = 10_000
#: Of the names of scopes, which are sorted.
LEVEL = "level"


class ExperienceStore(base.BaseStore):
    """The items of a memory; a namespace is a scope, a key a tag."""

    def __init__(self, memory: GrowingMemory) -> None:
        """Take the memory."""
        self._memory = memory

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations in their order."""
        return [self._answer(one) for one in ops]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Any) -> Any:
        match op:
            case base.PutOp():
                return self._put(op)
            case base.GetOp():
                where = {**_scope(op.namespace), "key": op.key}
                items = self._items("", where)
                return next((one for one in items if one.namespace == op.namespace), None)
            case base.SearchOp():
                chosen = op.filter or {}
                if any(isinstance(value, dict) for value in chosen.values()):
                    raise ValueError("a filter compares for equality here: give values")
                most = MOST if chosen else op.limit + op.offset
                items = self._items(op.query or "", _scope(op.namespace_prefix), most)
                fits = [x for x in items if chosen.items() <= x.value.items()]
                return fits[op.offset : op.offset + op.limit]
            case base.ListNamespacesOp():
                names, conditions = {x.namespace for x in self._items("", {})}, op.match_conditions
                met = [one for one in names if all(_meets(one, x) for x in conditions or ())]
                cut = sorted({one[: op.max_depth] for one in met})
                return cut[op.offset : op.offset + op.limit]
        raise TypeError(f"no operation of a store: {op!r:.100}")

    def _put(self, op: base.PutOp) -> None:
        where = {**_scope(op.namespace), "key": op.key}
        if any(one.namespace == op.namespace for one in self._items("", where)):
            self._memory.forget(where=where)
        if op.value is None:
            return
        goal, observation = (op.value.get(name, op.value) for name in ("goal", "observation"))
        episode = self._memory.begin(goal, scope=_scope(op.namespace), tags={"key": op.key})
        episode.step(observation, op.value)
        episode.finish(op.value.get("score", 1.0))

    def _items(self, query: str, where: dict[str, str], k: int = MOST) -> list[base.SearchItem]:
        # A memory recalls the most probable actions, up to half of them, before the most similar.
        recalls = self._memory.recall(
            query, query, 2 * k + 2, where=where or None, min_similarity=-1.0
        )
        items = []
        for recall in recalls:
            one = recall.tuple
            items.append(
                base.SearchItem(
                    namespace=tuple(text for name, text in one.scope if name.startswith(LEVEL)),
                    key=dict(one.tags).get("key", one.trajectory_id),
                    value=_value(one.action),
                    created_at=(time := datetime.fromtimestamp(one.time, UTC)),
                    updated_at=time,
                    score=recall.similarity,
                )
            )
        return sorted(items, key=lambda one: one.score or 0.0, reverse=True)


def _scope(namespace: tuple[str, ...]) -> dict[str, str]:
    return {f"{LEVEL}{number:02}": text for number, text in enumerate(namespace)}


def _meets(namespace: tuple[str, ...], condition: base.MatchCondition) -> bool:
    path = condition.path
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return len(part) == len(path) and all(
        expected in ("*", text) for expected, text in zip(path, part, strict=True)
    )


def _value(action: str) -> dict[str, Any]:
    """Return what was put, or the action that something else recorded."""
    value = parse_json(action, "the value")
    return value if isinstance(value, dict) else {"action": action}

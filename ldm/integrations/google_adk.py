"""Google's Agent Development Kit: a memory service whose sessions are episodes.

    runner = Runner(…, memory_service=ExperienceService(Experience(memory, score)))

The tools `load_memory` and `preload_memory` of ADK then recall what was done; an app and a user
are a scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from ldm.integrations.experience import Experience


class ExperienceService(BaseMemoryService):
    """Keeps finished sessions as episodes; the first message of the user is the goal.

    The experience's score is computed of the session. A session that is added again adds what is
    new since.
    """

    def __init__(self, experience: Experience) -> None:
        """Take the memory, and how sessions are scored."""
        self._experience = experience
        self._added: dict[str, int] = {}

    async def add_session_to_memory(self, session: Session) -> None:
        """Record the session as an episode."""
        await asyncio.to_thread(self._add, session)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Recall what was done in situations like the query."""
        one, scope = self._experience, {"app": app_name, "user": user_id}
        entries = []
        for recall, text in await asyncio.to_thread(one.quoted, query, one.k, scope):
            content = types.Content(role="user", parts=[types.Part(text=text)])
            ended = datetime.fromtimestamp(recall.tuple.time, UTC).isoformat()
            entries.append(MemoryEntry(content=content, id=recall.id, timestamp=ended))
        return SearchMemoryResponse(memories=entries)

    def _add(self, session: Session) -> None:
        events = session.events[self._added.get(session.id, 0) :]
        parts = list(_parts(events))
        goal = next((one.text for by, one in parts if by == "user" and one.text), "")
        if not any(by != "user" for by, _ in parts):
            return
        self._added[session.id] = len(session.events)
        scope = {"app": session.app_name, "user": session.user_id}
        tags = {**self._experience.tags, "session": session.id}
        attempt = replace(self._experience, scope=scope, tags=tags).begin(goal)
        answers = [part.function_response for _, part in parts if part.function_response]
        results = {one.id: str(one.response) for one in answers}
        for _, part in parts:
            if call := part.function_call:
                attempt.acted(call.name or "", dict(call.args or {}), results.get(call.id, ""))
        texts = [part.text for by, part in parts if by != "user" and part.text]
        attempt.finished(texts[-1] if texts else "", session)


def _parts(events: Any) -> Iterator[tuple[str, Any]]:
    for event in events:
        for part in (event.content and event.content.parts) or ():
            yield event.author, part

"""An HTTP server that AgentGym's clients of ALFWorld know: /create, /reset, /step, /observation.

    app = server("alfworld", "demo_train")        # serve it with uvicorn

A session that nobody has used for an hour is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ldm.errors import LdmError
from ldm.integrations.panel import STEPS, Session
from ldm.text import Problem, parse_json

#: Seconds without a request after which a session may be closed, and sessions at a time.
IDLE, SESSIONS = 3_600.0, 1_024


class Gym:
    """The sessions of a server, by number."""

    def __init__(self, opened: Callable[[], Session], idle: float = IDLE) -> None:
        """Take what opens a session, and after how many seconds it may be closed."""
        self._opened, self._idle = opened, idle
        self._sessions: dict[int, tuple[Session, float]] = {}
        self._next = 0

    def create(self, body: Any) -> dict[str, Any]:
        """Open a session; close those that were abandoned."""
        for number, (session, used) in [*self._sessions.items()]:
            if time.monotonic() - used > self._idle:
                session.close()
                del self._sessions[number]
        if len(self._sessions) >= SESSIONS:
            raise LdmError(f"{SESSIONS} sessions are open.", "Close one.")
        number, self._next = self._next, self._next + 1
        self._sessions[number] = self._opened(), time.monotonic()
        return {"id": number}

    def reset(self, body: Any) -> dict[str, Any]:
        """Start the task with the number `game`."""
        session = self._session(body)
        session.reset(int(body["game"]))
        kind = session.task.kind if session.task else ""
        return {**self.detail(body), "id": body["id"], "task_type": kind}

    def step(self, body: Any) -> dict[str, Any]:
        """Execute an action."""
        self._session(body).step(str(body["action"]))
        return self.detail(body)

    def detail(self, body: Any) -> dict[str, Any]:
        """Return what a step returned: AgentGym's reward is the score so far."""
        session = self._session(body)
        return {
            "observation": session.now.observation,
            "reward": session.score,
            "available_actions": list(session.now.admissible or ()),
            "done": session.over,
        }

    def close(self, body: Any) -> dict[str, Any]:
        """Close a session."""
        self._session(body).close()
        del self._sessions[int(body["id"])]
        return {"closed": True}

    def _session(self, body: Any) -> Session:
        session, _ = self._sessions.get(int(body["id"]), (None, 0.0))
        if session is None:
            raise LdmError("There is no such session.", "Create one.")
        self._sessions[int(body["id"])] = session, time.monotonic()
        return session


def server(env: str, split: str | None = None, max_steps: int = STEPS, **options: Any) -> Any:
    """Return the application."""
    gym = Gym(lambda: Session(env, split, max_steps, **options))

    def answering(operation: Callable[[Any], Any], field: str = "") -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> JSONResponse:
            try:
                sent = await request.body()
                body = parse_json(sent, "the request") if sent else dict(request.query_params)
                if isinstance(body, Problem):
                    raise ValueError(str(body))
                answer = await asyncio.to_thread(operation, body)
                return JSONResponse(answer[field] if field else answer)
            except (LdmError, LookupError, TypeError, ValueError, OverflowError) as error:
                return JSONResponse({"error": str(error)})  # with status 200, as AgentGym does

        return endpoint

    posts = [Route(f"/{name}", answering(getattr(gym, name)), methods=["POST"]) for name in POSTED]
    greeting = Route("/", answering(lambda _: f"This is environment {env}."))
    parts = ("observation", "available_actions")
    gets = [Route(f"/{name}", answering(gym.detail, name)) for name in parts]
    return Starlette(routes=[*posts, greeting, *gets, Route("/detail", answering(gym.detail))])


POSTED = ("create", "reset", "step", "close")

"""The calls of a stage, collected: work goes as far as it can, and what it lacks is noted.

Work that is done again after each stage finds the calls of the stages before in the recording. So
nothing has to be known of how its calls depend on one another, and nothing depends on threads.
"""

from __future__ import annotations

from ldm.errors import Postponed
from ldm.llm.calls import Call, Request
from ldm.llm.client import Caller, Client, fitting


class Gathering(Caller):
    """Answers calls from the recording, and postpones and notes the others.

    missing: key → (role, request) of these, in the order in which they were first asked.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.missing: dict[str, tuple[str, Request]] = {}

    def call(self, role: str, request: Request) -> Call:
        """Return the recorded call. Raises ContextTooLong as `Client.call`, and Postponed."""
        key = request.key
        call = self._client.recorded(key)
        if call is None:
            self.missing.setdefault(key, (role, request))
            raise Postponed
        return fitting(call)

    def context(self, model: str, role: str = "") -> int | None:
        """Return the tokens of the context of a role's model, as `Client.context`."""
        return self._client.context(model, role)

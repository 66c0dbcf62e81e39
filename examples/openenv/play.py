"""Play an episode on a running server, and continue it from its middle in another session.

python examples/openenv/play.py http://127.0.0.1:8000
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from openenv.core import GenericEnvClient


async def play(url: str) -> list[Any]:
    """Return the scores of two sessions that share their first half."""
    async with GenericEnvClient(base_url=url) as one, GenericEnvClient(base_url=url) as other:
        now = await one.reset(task=0)
        print(now.observation["text"])
        for _ in range(3):
            now = await one.step({"command": now.observation["admissible"][0]})
            print(now.observation["text"])
        await other.reset(state=(await one.state())["saved"])
        ends = [await client.step({"command": "look"}) for client in (one, other)]
        return [end.observation["score"] for end in ends]


if __name__ == "__main__":
    print(asyncio.run(play(sys.argv[1])))

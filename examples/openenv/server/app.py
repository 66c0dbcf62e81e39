"""The server of this folder: LDM_ENV and LDM_SPLIT choose what is played.

uvicorn server.app:app --port 8000
"""

from __future__ import annotations

import os

import uvicorn

from ldm.integrations.openenv import server

app = server(os.environ.get("LDM_ENV", "alfworld"), os.environ.get("LDM_SPLIT") or None)


def main() -> None:
    """Serve until interrupted."""
    uvicorn.run(app, host="0.0.0.0", port=8000)  # noqa: S104 - in a container


if __name__ == "__main__":
    main()

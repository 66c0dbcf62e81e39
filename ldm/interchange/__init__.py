"""A plug-in: formats of other tools, entry points of the group `ldm.formats`.

Chat messages are read and written, the other formats are read.
Fields that a format lacks are kept under the key `ldm` (`remainder.py`), so that our trajectories
come back equal; recordings of other programs have no such key (`foreign.py`).
"""

from __future__ import annotations

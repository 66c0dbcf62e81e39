"""A plug-in: formats of other tools, entry points of the group `ldm.formats`.

ATIF, chat messages and Parquet are read and written.
Fields that a format lacks are kept under the key `ldm` (`remainder.py`), so that our trajectories
come back equal; recordings of other programs have no such key (`foreign.py`).
"""

from __future__ import annotations

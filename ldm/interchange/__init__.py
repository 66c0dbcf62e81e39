"""Formats of other tools: ATIF, chat messages and Parquet are read and written, logs only read.

What a format has no field for rides along under the key `ldm` (`remainder.py`), so that our own
trajectories come back equal; recordings of others, ShareGPT and OpenTelemetry among them, have no
such key and are read as far as they go (`foreign.py`).
"""

from __future__ import annotations

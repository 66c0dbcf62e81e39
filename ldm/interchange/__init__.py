"""A plug-in: formats of other tools, entry points of the group `ldm.formats`.

Chat messages are read and written, the other formats are read. The trajectory itself stands under
the key `ldm` beside its messages, so that it comes back equal; recordings of other programs have no
such key.
"""

from __future__ import annotations

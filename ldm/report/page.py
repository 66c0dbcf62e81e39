"""The page: one file with styles, scripts and data, which makes no request.

Data are JSON, compressed in chunks that the page unpacks on demand. In base64 no text of a record
can end the script that holds it. A Content-Security-Policy names the hashes of our own styles and
scripts, and forbids all others and every request.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from ldm.text import redacted_json

#: In the order of use; the first makes all of them strict.
SCRIPTS = (
    "data.js",
    "dom.js",
    "vendor/uplot.js",
    "charts.js",
    "overview.js",
    "episodes.js",
    "episode.js",
    "side_by_side.js",
    "main.js",
)
STYLES = ("vendor/uplot.css", "report.css")
#: Approximate characters of JSON in a chunk, which is unpacked when one of its episodes is opened.
CHUNK = 400_000
_MARK = re.compile(r"@([A-Z]+)@")
#: Level of compression; the highest takes three times as long and saves a twentieth.
LEVEL = 6


def text_of(name: str) -> str:
    """Return a file of the page."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@dataclass
class Chunks:
    """Packed data by name, and the open chunk of each kind.

    sizes: kind → number of values in each of its chunks.
    """

    packed: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    _open: dict[str, list[str]] = field(default_factory=dict)
    _lengths: dict[str, int] = field(default_factory=dict)

    def put(self, name: str, value: Any) -> None:
        """Pack a value under a name of its own."""
        self.packed[name] = _packed(_json(value))

    def add(self, kind: str, value: Any) -> tuple[int, int]:
        """Add a value to its kind; return the chunk's number and the place in it."""
        if self._lengths.get(kind, 0) > CHUNK:
            self._close(kind)
        parts, text = self._open.setdefault(kind, []), _json(value)
        parts.append(text)
        self._lengths[kind] = self._lengths.get(kind, 0) + len(text)
        return len(self.sizes.get(kind, ())), len(parts) - 1

    def close(self) -> None:
        """Pack the open chunks."""
        for kind in list(self._open):
            self._close(kind)

    def _close(self, kind: str) -> None:
        parts = self._open.pop(kind)
        self._lengths[kind] = 0
        sizes = self.sizes.setdefault(kind, [])
        self.packed[f"{kind}-{len(sizes)}"] = _packed(f"[{','.join(parts)}]")
        sizes.append(len(parts))


def page(title: str, chunks: Mapping[str, str]) -> str:
    """Return the page. chunks: packed data by name."""
    script = "\n".join(text_of(name) for name in SCRIPTS)
    style = "\n".join(text_of(name) for name in STYLES)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="text/plain" id="{name}">{packed}</script>'
        for name, packed in chunks.items()
    )
    parts = {
        "POLICY": policy,
        "TITLE": escape(title),
        "NOTICE": text_of("vendor/LICENSE"),
        "STYLE": style,
        "DATA": data,
        "SCRIPT": script,
    }
    # In one pass, as a title may look like a placeholder.
    return _MARK.sub(lambda mark: parts[mark[1]], text_of("report.html"))


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return _json(_finite(value))
    return redacted_json(text)


def _finite(value: Any) -> Any:
    """Return a value with numbers that JSON does not have as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _packed(text: str) -> str:
    raw = text.encode("utf-8", "replace")  # half a surrogate pair cannot be encoded
    return base64.b64encode(gzip.compress(raw, LEVEL, mtime=0)).decode()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"

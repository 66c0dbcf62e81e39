"""Names → classes, looked up lazily: built-in dicts, entry points, or "package.module:Class".

Nothing is imported until a name is used, so `ldm --help` loads no simulator and no model. A name
that stands in a file is not the user's: for it, nothing is imported that is not registered.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from ldm.errors import LdmError


@dataclass(frozen=True, slots=True)
class Contract:
    """The members of a registered class: those of `base`, which has defaults, and `required`.

    tests: the test class that states what each member does.
    """

    base: type
    required: tuple[str, ...] = ()
    tests: str = ""

    def lacking(self, named: Any) -> list[str]:
        """Return the members that `named` lacks or leaves abstract."""
        public = (member for member in dir(self.base) if not member.startswith("_"))
        abstract = getattr(named, "__abstractmethods__", ())
        return [
            member
            for member in dict.fromkeys((*self.required, *public))
            if not hasattr(named, member) or member in abstract
        ]


#: The "package.module:Class" names that the user of this process gave.
_named: set[str] = set()
_path_lock = threading.RLock()


def names(builtin: Mapping[str, str], group: str) -> dict[str, str]:
    """Return all names with their dotted paths: `builtin` and what installed packages announce."""
    announced = {point.name: point.value for point in entry_points(group=group)}
    return dict(sorted({**announced, **builtin}.items()))


def load(
    name: str,
    builtin: Mapping[str, str],
    group: str,
    what: str,
    *,
    contract: Contract | None = None,
    recorded: bool = False,
) -> Any:
    """Return the object that `name` stands for; messages call it `what`, e.g. "environment".

    recorded: the name comes from a file. A module that it names is imported only if it is
    registered, or if the user of this process named it before.
    Raise LdmError if that is not so, if the name is unknown or cannot be imported, or if the object
    does not keep the contract.
    """
    if recorded and ":" in name and name not in {*_named, *names(builtin, group).values()}:
        raise LdmError(
            f"A file names the {what} {name!r}, which is not registered: using it would run its "
            "code.",
            f"If you trust that code, name the {what} again on the command line, or add --trust "
            "where the command has it (in Python: Runtime(trust=True)).",
        )
    # Entry points are looked up last, because that reads a file of every installed package.
    target = name if ":" in name else builtin.get(name) or names(builtin, group).get(name)
    if target is None:
        known = names(builtin, group)
        close = get_close_matches(name, known, n=1)
        suggestion = f"Did you mean {close[0]!r}? " if close else ""
        raise LdmError(
            f"There is no {what} {name!r}.",
            f"{suggestion}Known: {', '.join(known)}; or name your own as package.module:Class.",
        )
    module_name, _, attribute = target.partition(":")
    try:
        if ":" not in name:
            named = getattr(importlib.import_module(module_name), attribute)
        else:
            with _importable_working_directory():
                named = getattr(importlib.import_module(module_name), attribute)
            _named.add(name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # also of a bad name
        raise LdmError(
            f"The {what} {name!r} ({target}) cannot be imported: {error}.",
            "Check the spelling and that its package is installed in this environment.",
        ) from error
    if contract is not None and (lacking := contract.lacking(named)):
        base = f"{contract.base.__module__}.{contract.base.__qualname__}"
        raise LdmError(
            f"The {what} {name!r} is incomplete: it lacks {', '.join(lacking)}.",
            f"Derive the class from {base}, which has defaults for most members; "
            f"{contract.tests} states what each has to do.",
        )
    return named


@contextmanager
def _importable_working_directory() -> Iterator[None]:
    """Let modules of the working directory be imported, last so that they hide nothing installed.

    Only while a module that the user named is imported: libraries look for optional modules.
    """
    directory = os.getcwd()
    with _path_lock:
        if directory in sys.path:
            yield
            return
        sys.path.append(directory)
        try:
            yield
        finally:
            if directory in sys.path:
                sys.path.remove(directory)

"""Names → objects, looked up lazily: built-in dicts, entry points, or "package.module:Class".

Nothing is imported before a name is used, so `ldm --help` loads no simulator and no model. A name
read from a file is not the user's choice: it imports nothing that is not registered.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from ldm.errors import LdmError, did_you_mean


@dataclass(frozen=True, slots=True)
class Contract:
    """The members of a registered class: those of `base`, which has defaults, and `required`.

    tests: the test class that states what each member does.
    """

    base: type
    required: tuple[str, ...] = ()
    tests: str = ""

    def complete(self, named: Any) -> list[str]:
        """Give a class the defaults that it lacks; return the members that have none.

        A class need not derive from `base`: what its author did not know of has a default.
        """
        needed = [*self.required, *sorted(getattr(self.base, "__abstractmethods__", ()))]
        abstract = getattr(named, "__abstractmethods__", ())
        missing = [one for one in needed if not hasattr(named, one) or one in abstract]
        for member in () if missing else dir(self.base):
            if not member.startswith("_") and not hasattr(named, member):
                setattr(named, member, inspect.getattr_static(self.base, member))
        return missing


#: The "package.module:Class" names given by the user of this process.
_named: set[str] = set()
_path_lock = threading.RLock()


def names(builtin: Mapping[str, str], group: str) -> dict[str, str]:
    """Return name → dotted path, sorted: `builtin`, ours, and those of other packages."""
    points = sorted(entry_points(group=group), key=lambda one: one.value.startswith("ldm."))
    announced = {point.name: point.value for point in points}
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
    """Return the object called `name`, or the module if its path names no attribute.

    what: the kind of object in messages, e.g. "environment". contract: what the object must have.
    recorded: the name comes from a file: import its module only if it is registered, or if the
    user of this process has named it before.
    Raise LdmError if that forbids it, if the name is unknown, if its module or attribute cannot be
    imported, or if it lacks something of the contract.
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
        raise LdmError(
            f"There is no {what} {name!r}.",
            f"{did_you_mean(name, known)}Known: {', '.join(known)}; or name your own as "
            "package.module:Class.",
        )
    try:
        if ":" not in name:
            loaded = _imported(target)
        else:
            with _importable_working_directory():
                loaded = _imported(target)
            _named.add(name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # also of a bad name
        raise LdmError(
            f"The {what} {name!r} ({target}) cannot be imported: {error}.",
            "Check the spelling and that its package is installed in this environment.",
        ) from error
    if contract is not None and (lacking := contract.complete(loaded)):
        base = f"{contract.base.__module__}.{contract.base.__qualname__}"
        raise LdmError(
            f"The {what} {name!r} is incomplete: it lacks {', '.join(lacking)}.",
            f"Derive the class from {base}, which has defaults for most members; "
            f"{contract.tests} states what each has to do.",
        )
    return loaded


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


@contextmanager
def _importable_working_directory() -> Iterator[None]:
    """Allow imports from the working directory, last so that they hide nothing installed.

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

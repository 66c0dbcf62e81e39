"""Options as text: how settings of agents and environments are written, recorded and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import PurePath
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from ldm.errors import LdmError

#: Prefix of an option that belongs to the environment, where others are named beside it.
ENV_PREFIX = "env."
#: (field, value as written) of a dataclass of options, sorted by field.
Settings = tuple[tuple[str, str], ...]


def settings(**values: object) -> Settings:
    """Return options as specs hold them: `settings(k=7, history="none")`; None leaves one out."""
    return sorted_settings({k: str(v) for k, v in values.items() if v is not None})


def sorted_settings(values: Mapping[str, str]) -> Settings:
    """Return the options of a mapping, sorted by their names."""
    return tuple(sorted(values.items()))


def normalise(options: Any) -> None:
    """Turn what callers write into what a frozen dataclass of options holds, in place.

    Mappings become settings, paths text, lists tuples. For its `__post_init__`.
    Raises LdmError for a text where several names belong: it would be read letter by letter.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, Mapping):
            value = settings(**value)
        elif isinstance(value, PurePath):
            value = str(value)
        elif isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, str) and str(field.type).startswith("tuple"):
            owner = type(options).__name__
            raise LdmError(
                f"{field.name} of {owner} takes several values, and {value!r} is one text.",
                f"Write {field.name}=({value!r},).",
            )
        object.__setattr__(options, field.name, value)


def descriptions(options: type[Any]) -> dict[str, str]:
    """Return field → description of a dataclass of options: the text of its `Annotated` type."""
    hints = get_type_hints(options, include_extras=True)
    return {
        field.name: text
        for field in fields(options)
        for text in get_args(hints[field.name])[1:]
        if get_origin(hints[field.name]) is Annotated and isinstance(text, str)
    }


def override(options: type[Any], values: Mapping[str, str], owner: str) -> Any:
    """Return an `options` (a dataclass with defaults) with the fields in `values` read as written.

    owner: whose options these are, for messages. Tuples are written with commas, None as "none".
    Raises LdmError for an unknown field and for a value that its type does not allow.
    """
    hints = get_type_hints(options)
    known = [field.name for field in fields(options)]
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            raise LdmError(
                f"The {owner} has no option {name!r}.",
                f"{hint}It has: {', '.join(known) or 'none'}.",
            )
    parsed = {name: _parsed(name, value, hints[name], owner) for name, value in values.items()}
    try:
        return options(**parsed)
    except ValueError as error:
        raise LdmError(
            f"Invalid options for the {owner}: {error}.", "Correct these options."
        ) from error


def _parsed(name: str, text: str, hint: Any, owner: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    value: Any = text
    if text.lower() == "none" and type(None) in get_args(hint):
        value = None
    elif get_origin(hint) in (tuple, list, frozenset):
        value = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise LdmError(
            f"{name}={text} does not fit the {owner}: {message}.", f"Change --set {name}=…."
        ) from error


def at_least(minimum: float, **values: float | None) -> None:
    """Raise ValueError if one of the values is below the minimum; None is no value."""
    for name, value in values.items():
        if value is not None and value < minimum:
            raise ValueError(f"{name} must be at least {minimum:g}, not {value:g}")

"""Errors that the user can solve.

Bad model output is never an error: it is data, an invalid action that is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question after the known name that a misspelt one resembles, "" for none."""
    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]!r}? " if close else ""


class LdmError(Exception):
    """A problem that the user can solve, with its remedy.

    The message is one or two plain sentences; `remedy` is the next thing to do. The command line
    prints both and exits with status 1.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class RecordError(LdmError):
    """A record that violates its schema; the message starts with file:line:field."""


class MemoryStoreError(LdmError):
    """A memory that cannot be opened, read or written."""


class MemoryLocked(MemoryStoreError):
    """A memory that another process is writing to."""


class LeakageError(LdmError):
    """A memory or a prompt that holds data of the tasks to evaluate."""


class ForkUnsupported(LdmError):
    """An environment that cannot copy its state; callers replay from reset instead."""


class ReplayDivergence(LdmError):
    """A replay of recorded actions that gave another observation than recorded."""


class Interrupted(LdmError):
    """A run that the user stopped (Ctrl-C or SIGTERM); its records stay."""


class WorkerDied(LdmError):
    """A worker process that was killed or ran out of memory; the run's records stay."""


class ModelError(LdmError):
    """One model call that failed for good, after its retries; other calls may succeed."""


class ContextTooLong(ModelError):
    """Messages too long for the model's context; the caller may shorten them and try again."""


class RunStopped(LdmError):
    """A run that can make no further model call; its records stay, and it can be resumed."""


class BudgetSpent(RunStopped):
    """A call that could exceed --max-usd, --max-tokens or --max-calls."""


class ModelUnavailable(RunStopped):
    """A model service that is unreachable, refuses the key or the model, or keeps failing."""


class ReplayMiss(RunStopped):
    """A call that the replayed recording does not hold."""


class EmbedderWarning(UserWarning):
    """Texts that the embedder cannot compare by their meaning; the message names the remedy."""

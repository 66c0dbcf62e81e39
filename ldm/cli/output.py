"""Print tables, lines, progress bars and JSON. Nothing else in the package prints.

Results go to standard output; everything else, progress included, to standard error. Control
characters in goals, observations and replies are made visible (`ldm.text`). The numbers of running
episodes are those so far; their intervals are Wilson's, which are fast to compute and may differ
slightly from those of the final table.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ldm.run.runtime import OnEpisode, Playing, counting
from ldm.text import counted, last_line, printable, printable_json, redacted, redacted_json
from ldm.types import EpisodeResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


#: Wide enough for every table if the output is no terminal: nothing is cut off in a file.
FILE_WIDTH = 160
#: The minimum width of a column of words.
LEAST = 16
#: Characters that a table adds around its columns, and between two of them.
BETWEEN_EDGES, BETWEEN_COLUMNS = 2, 3
#: Seconds of silence on standard error after which progress is printed if that is no terminal, and
#: between two checks of the time.
SILENCE, LOOK = 10.0, 1.0


def safe(text: str) -> str:
    """Return a text without secrets, and with its control characters made visible."""
    return printable(redacted(text))


def say(line: str, *, error: bool = True) -> None:
    """Print a line; to standard error unless `error` is False."""
    global _said_at  # noqa: PLW0603 - like the stream, one for the process
    print(safe(line), file=sys.stderr if error else sys.stdout, flush=True)
    _said_at = time.monotonic()


def show(line: str) -> None:
    """Print a line of a result, on standard output."""
    say(line, error=False)


def say_all(lines: Iterable[str], *, error: bool = False) -> None:
    """Print the lines of a result; to standard error if something else is the result."""
    for line in lines:
        say(line, error=error)


def print_json(value: Any, indent: int | None = None) -> None:
    """Print one JSON value on standard output, on one line unless it is indented."""
    print(redacted_json(printable_json(value, indent)), flush=True)


def print_result(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result as JSON or as lines."""
    if as_json:
        print_json(value)
    else:
        say_all(lines)


def print_entries(entries: Mapping[str, Mapping[str, Any]], as_json: bool = False) -> None:
    """Print things by their names with their facts, a line each, or as JSON."""
    if as_json:
        print_json(entries)
        return
    for name, entry in entries.items():
        show(name + (f": {entry['is']}" if entry.get("is") else ""))
        for key, value in entry.items():
            if key in ("is", "descriptions"):
                continue
            if key == "options" and value:
                show("  options:")
                for option, default in value.items():
                    meaning = entry["descriptions"].get(option, "")
                    show(f"    {option}={default}" + (f": {meaning}" if meaning else ""))
            elif key == "needs" or value not in ({}, [], "", None):
                for line in value if isinstance(value, tuple) else (value,):
                    show(f"  {key.replace('_', ' ')}: {worded(line)}")


def worded(value: Any) -> str:
    """Return a JSON value as part of a line."""
    match value:
        case dict():
            return ", ".join(f"{path}={item}" for path, item in _flat(value))
        case list():
            return ", ".join(map(str, value)) or "nothing"
        case bool():
            return "yes" if value else "no"
    return str(value)


def _flat(values: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted path, without unchanged ones."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{place}{name}.")
        elif value not in (None, ""):
            yield f"{place}{name}", value


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    error: bool = False,
    whole: Sequence[str] = (),
) -> None:
    """Print a table: words to the left, numbers to the right; None and "" are empty cells.

    whole: columns of words that are not divided, to be copied from.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[safe("" if value is None else str(value)) for value in row] for row in rows]
    worded = [any(row[i][:1].isalpha() for row in cells) for i in range(len(columns))]
    divisible = [is_worded and columns[i] not in whole for i, is_worded in enumerate(worded)]
    terminal = console(error=error)
    heading = Text(safe(title))
    for block in _blocks([list(map(safe, columns)), *cells], divisible, terminal.width):
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for i in block:
            table.add_column(
                Text(safe(columns[i])),
                justify="left" if worded[i] else "right",
                overflow="fold",
                no_wrap=not divisible[i] or max((len(row[i]) for row in cells), default=0) <= LEAST,
            )
        for row in cells:
            table.add_row(*(Text(row[i]) for i in block))
        terminal.print(table)
        heading = Text("")


def _blocks(
    rows: Sequence[Sequence[str]], divisible: Sequence[bool], width: int
) -> Iterator[list[int]]:
    """Yield groups of columns that fit side by side after the first, with numbers whole.

    rows: the columns' names first.
    """
    first = BETWEEN_EDGES + _least(rows, 0, divisible)
    block, used = [0], first
    for i in range(1, len(divisible)):
        needed = BETWEEN_COLUMNS + _least(rows, i, divisible)
        if len(block) > 1 and used + needed > width:
            yield block
            block, used = [0], first
        block.append(i)
        used += needed
    yield block


def _least(rows: Sequence[Sequence[str]], i: int, divisible: Sequence[bool]) -> int:
    """Return the minimum width of a column: words may be divided, numbers may not."""
    return min(LEAST if divisible[i] else FILE_WIDTH, max(len(row[i]) for row in rows))


def on_terminal() -> bool:
    """Return whether standard error is a terminal, whose lines can be redrawn."""
    return sys.stderr.isatty()


def console(*, error: bool) -> Console:
    """Return a console for the terminal, or one wide enough for every table in a file."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else FILE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def stages(*, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Show progress bars on standard error, one per stage; yield a function that reports progress.

    It takes a stage's name, how much of how much is done, and perhaps a short note. quiet: show
    nothing.
    """
    if quiet:
        yield lambda *_: None
        return
    if not on_terminal():
        state, started = "working", time.monotonic()

        def report(stage: str, done: int, total: int, note: str = "") -> None:
            nonlocal state
            state = f"{stage}: {done} of {total}" if total else stage

        with _heartbeat(lambda: f"{state} ({time.monotonic() - started:.0f} s)"):
            yield report
        return
    from rich import progress as bar

    columns = (
        *(bar.TextColumn("{task.description}", markup=False), bar.BarColumn(20)),
        *(bar.MofNCompleteColumn(), bar.TextColumn("{task.fields[note]}", markup=False)),
        *(bar.TimeElapsedColumn(), bar.TimeRemainingColumn()),
    )
    with bar.Progress(*columns, console=console(error=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int, note: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(safe(stage), total=total or None, note="")
            bars.update(tasks[stage], completed=done, total=total or None, note=safe(note))

        yield show


@contextmanager
def _heartbeat(line: Callable[[], str]) -> Iterator[None]:
    """Print a line whenever nothing was printed for a while."""
    ended = threading.Event()

    def work() -> None:
        since = time.monotonic()
        while not ended.wait(LOOK):
            if time.monotonic() - max(since, _said_at) >= SILENCE:
                say(line())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


#: When this process printed last.
_said_at = 0.0


@contextmanager
def episodes(playing: Playing) -> Iterator[OnEpisode]:
    """Show running episodes; without a terminal, those recorded before share one line."""
    results: list[EpisodeResult] = []
    width = len(str(playing.total))
    with counting(stages, playing.label, playing.total) as advance:

        def on_episode(result: EpisodeResult) -> None:
            results.append(result)
            advance(success(results))
            done = len(results)
            if on_terminal() or done < playing.recorded:
                return
            if done == playing.recorded:
                words = f"{playing.label}: {done} recorded before; "
            else:
                words = (
                    f"[{done:>{width}}/{playing.total}] {result.task.id} {outcome(result)}, "
                    f"{result.env_steps} steps, {result.seconds:.1f} s | "
                )
            say(words + figures(results, playing.usd()))

        yield on_episode


def success(results: Sequence[EpisodeResult]) -> str:
    """Return the success rate of at least one episode, with its interval."""
    from ldm.run.statistics import wilson

    solved = sum(result.solved for result in results)
    low, high = wilson(solved, len(results))
    return f"success {100 * solved / len(results):.1f} % ({100 * low:.0f}–{100 * high:.0f})"


def figures(results: Sequence[EpisodeResult], usd: float | None) -> str:
    """Return success, errors, steps, tokens and money of the episodes in a few words."""
    words = [success(results)]
    if errors := sum(result.end == "error" for result in results):
        words.append(counted(errors, "error"))
    steps = sum(result.env_steps for result in results)
    words.append(f"{steps / len(results):.1f} steps/episode")
    usages = [result.usage for result in results]
    if tokens := sum(usage.tokens for usage in usages):
        words.append(f"{tokens:,} tokens")
    if usd is not None:
        words.append(f"{usd:.4f} USD")
    return ", ".join(words)


def outcome(result: EpisodeResult) -> str:
    """Return the outcome of an episode in a word or two."""
    if result.end == "error":
        return f"error: {last_line(result.error)[:100]}"
    return "solved" if result.success else f"score {result.score:.2f}" if result.score else "failed"

"""The progress of running episodes: a bar, or one line each.

Both go to standard error. The numbers are those of the episodes so far; intervals are Wilson's,
which are fast to compute and may differ slightly from those of the final table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ldm.cli import output
from ldm.cli.output import Heartbeat
from ldm.run.runtime import OnEpisode, Playing
from ldm.text import counted
from ldm.types import EpisodeResult


@dataclass
class Tally:
    """The results of the episodes so far."""

    playing: Playing
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    solved: int = 0
    errors: int = 0
    steps: int = 0
    tokens: int = 0

    def add(self, result: EpisodeResult) -> None:
        """Count one more episode; an error counts as a failure."""
        self.done += 1
        self.errors += result.end == "error"
        self.solved += result.solved
        self.steps += result.env_steps
        self.tokens += result.usage.prompt_tokens + result.usage.completion_tokens

    @property
    def running(self) -> int:
        """The number of episodes in progress."""
        return min(self.playing.workers, self.playing.total - self.done)

    def left(self, now: float) -> float | None:
        """Return the estimated seconds for the rest, or None before the first episode ends.

        Episodes that were recorded before take no time now.
        """
        played = self.done - self.playing.recorded
        if played <= 0 or self.done >= self.playing.total:
            return None
        return (now - self.started) / played * (self.playing.total - self.done)

    def success(self) -> str:
        """Return the rate of the episodes so far, of which there is one, with its interval."""
        from ldm.run.statistics import wilson

        low, high = wilson(self.solved, self.done)
        return f"success {100 * self.solved / self.done:.1f} % ({100 * low:.0f}–{100 * high:.0f})"

    def figures(self) -> str:
        """Return success with its interval, steps, tokens and money in a few words."""
        if not self.done:
            return "no episode yet"
        words = [self.success(), f"{self.steps / self.done:.1f} steps/episode"]
        if self.errors:
            words.insert(1, counted(self.errors, "error"))
        if self.tokens:
            words.append(f"{_short(self.tokens)} tokens")
        usd = self.playing.usd()
        if usd is not None:
            words.append(f"{usd:.4f} USD")
        return ", ".join(words)

    def progress(self, now: float) -> str:
        """Return the overall progress."""
        left = self.left(now)
        rest = "" if left is None else f", about {duration(left)} left"
        return f"{self.done} of {self.playing.total} done, {self.running} running{rest}"


def duration(seconds: float) -> str:
    """Return seconds in a few characters: 45 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


@contextmanager
def lines(playing: Playing, say: Callable[[str], None]) -> Iterator[OnEpisode]:
    """Print one line per episode with `say`; those recorded before share one line."""
    tally = Tally(playing)
    width = len(str(playing.total))
    heart = Heartbeat(lambda now: f"{playing.label}: {tally.progress(now)}", say)

    def on_episode(result: EpisodeResult) -> None:
        tally.add(result)
        if tally.done < playing.recorded:
            return
        if tally.done == playing.recorded:
            heart.say(f"{playing.label}: {tally.done} recorded before; {tally.figures()}")
            return
        heart.say(
            f"[{tally.done:>{width}}/{playing.total}] {result.task.id} {outcome(result)}, "
            f"{result.env_steps} steps, {result.seconds:.1f} s | {tally.figures()}"
        )

    with heart.beating():
        yield on_episode


def outcome(result: EpisodeResult) -> str:
    """Return the outcome of an episode in a word or two."""
    if result.end == "error":
        return f"error: {result.error.strip().splitlines()[-1][:100] if result.error else ''}"
    return "solved" if result.success else f"score {result.score:.2f}" if result.score else "failed"


@contextmanager
def episodes(playing: Playing) -> Iterator[OnEpisode]:
    """Show running episodes on standard error, as a bar if that is a terminal."""
    if not output.on_terminal():
        with lines(playing, output.say) as printed:
            yield printed
        return
    tally = Tally(playing)
    with output.progress(playing.label, playing.total) as advance:

        def on_episode(result: EpisodeResult) -> None:
            tally.add(result)
            advance(tally.success())

        yield on_episode

"""The progress of running episodes on standard error: a bar, or one line each.

The numbers are those of the episodes so far; intervals are Wilson's, which are fast to compute and
may differ slightly from those of the final table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ldm.cli import output
from ldm.run.runtime import OnEpisode, Playing
from ldm.text import counted
from ldm.types import EpisodeResult


@contextmanager
def episodes(playing: Playing) -> Iterator[OnEpisode]:
    """Show running episodes; without a terminal, those recorded before share one line."""
    results: list[EpisodeResult] = []
    width = len(str(playing.total))
    with output.progress(playing.label, playing.total) as advance:

        def on_episode(result: EpisodeResult) -> None:
            results.append(result)
            advance(success(results))
            done = len(results)
            if output.on_terminal() or done < playing.recorded:
                return
            if done == playing.recorded:
                words = f"{playing.label}: {done} recorded before; "
            else:
                words = (
                    f"[{done:>{width}}/{playing.total}] {result.task.id} {outcome(result)}, "
                    f"{result.env_steps} steps, {result.seconds:.1f} s | "
                )
            output.say(words + figures(results, playing.usd()))

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
        return f"error: {result.error.strip().splitlines()[-1][:100] if result.error else ''}"
    return "solved" if result.success else f"score {result.score:.2f}" if result.score else "failed"

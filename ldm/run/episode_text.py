"""Print episodes as lines: actions, recalled tuples as text, and votes.

Everything is bounded: a record may hold megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ldm.reason.consulting import REASONS
from ldm.run.reading import RecordedEpisode, Votes
from ldm.types import StateActionTuple, Step, Trajectory

EPISODE_COLUMNS = ("task", "goal", "outcome", "score", "steps", "invalid", "calls")
Tuples = Mapping[str, StateActionTuple | None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the output. text: characters of a text. recalls: nearest tuples of a step.

    steps: of a trial.
    """

    text: int = 300
    recalls: int = 3
    steps: int = 200


def short(text: str, most: int) -> str:
    """Return a text on one line, cut if it is longer."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[:most]}…"


def episode_row(episode: RecordedEpisode) -> tuple[str, ...]:
    """Return the row of an episode, by EPISODE_COLUMNS."""
    result = episode.result
    return (
        result.task.id,
        short(result.task.goal, 60),
        episode.outcome,
        f"{result.score:.2f}",
        str(result.env_steps),
        str(result.invalid),
        str(result.usage.calls),
    )


def episode_lines(
    episode: RecordedEpisode,
    tuples: Tuples,
    bounds: Bounds,
    trial: int | None = None,
    facts: Callable[[int], Iterable[Sequence[str]]] = lambda _: (),
) -> Iterator[str]:
    """Yield an episode step by step. trial: from 0; None is the one that counts.

    tuples: the recalled ones by id; None for those that the memory no longer holds. facts: returns
    those that decided each step of a trial.
    """
    result = episode.result
    yield result.task.id
    yield f"goal: {short(result.task.goal, bounds.text)}"
    yield (
        f"{episode.outcome}: score {result.score:.2f}, {result.env_steps} steps"
        f"{f', {result.invalid} invalid' if result.invalid else ''}"
        f", ended by {result.end.replace('_', ' ')}"
        f"{f', {result.usage.calls} model calls' if result.usage.calls else ''}"
    )
    if result.error:
        yield f"error: {short(episode.complaint, bounds.text)}"
    for name, text in episode.texts.items():
        yield f"{name}: {short(text, bounds.text)}"
    if not episode.trials:
        yield "No step was recorded."
        return
    place = max(0, result.submitted) if trial is None else trial
    if len(episode.trials) > 1:
        yield f"trial {place + 1} of {len(episode.trials)}"
    yield from _trial_lines(episode, place, tuples, bounds, iter(facts(place)))


def _trial_lines(
    episode: RecordedEpisode,
    place: int,
    tuples: Tuples,
    bounds: Bounds,
    facts: Iterator[Sequence[str]],
) -> Iterator[str]:
    trial: Trajectory = episode.trials[place]
    votes, calls = iter(episode.votes(place)), episode.calls(place)
    yield f"start: {short(trial.opening, bounds.text)}"
    for number, step in enumerate(trial.steps[: bounds.steps]):
        vote = next(votes, None) if step.action else None
        yield from _step_lines(number, step, vote, tuples, bounds)
        if step.action and (because := next(facts, ())):
            yield f"    because: {short('; '.join(because), bounds.text)}"
        if number in calls:
            count = len(calls[number])
            yield f"    a model was asked: {count} call{'s' if count > 1 else ''}"
        if step.observation:
            yield f"    → {short(step.observation, bounds.text)}"
    if (rest := len(trial.steps) - bounds.steps) > 0:
        yield f"{rest} more steps; `ldm report` shows all."


def _step_lines(
    number: int, step: Step, vote: Votes | None, tuples: Tuples, bounds: Bounds
) -> Iterator[str]:
    if not step.action:
        yield f"{number + 1:>3} thought: {short(step.thought, bounds.text)}"
        return
    reward = f"  (reward {step.reward:+.2f})" if step.reward else ""
    invalid = "" if step.valid else "  (invalid)"
    yield f"{number + 1:>3} {short(step.action, bounds.text)}{invalid}{reward}"
    if step.thought:
        yield f"    thought: {short(step.thought, bounds.text)}"
    if vote is not None:
        yield f"    {_vote_line(vote)}"
    if step.recalls:
        yield from _recall_lines(step, tuples, bounds)


def _vote_line(vote: Votes) -> str:
    shares = ", ".join(f"{short(action, 50)} {100 * share:.1f} %" for action, share in vote.shares)
    if vote.reason:
        why = "" if vote.reason == "always" else f" ({REASONS.get(vote.reason, vote.reason)})"
        return f"a model decided{why}; recalls vote for: {shares or 'nothing'}"
    if not vote.shares:
        return "no recalled action fits: the action done least often was taken"
    return f"the vote decided: {shares}"


def _recall_lines(step: Step, tuples: Tuples, bounds: Bounds) -> Iterator[str]:
    followed = set(step.followed or ())
    known = "" if step.followed is None else f", {len(followed)} followed"
    yield f"    recalled {len(step.recalls)}{known}:"
    places = sorted(range(len(step.recalls)), key=lambda i: (-step.recalls[i][1], i))
    for place in places[: bounds.recalls]:
        tuple_id, similarity = step.recalls[place]
        mark = "*" if place in followed else " "
        yield f"    {mark} {similarity:.2f} {_tuple_line(tuple_id, tuples.get(tuple_id))}"


def _tuple_line(tuple_id: str, one: StateActionTuple | None) -> str:
    if one is None:
        return f"{tuple_id} (no longer in the memory)"
    outcome = f", score {one.outcome.score:.2f}" if one.outcome else ""
    generation = f", generation {one.generation}" if one.generation else ""
    return (
        f"{short(one.goal, 60)} | {short(one.observation, 60)} → {short(one.action, 60)} "
        f"({one.origin}{outcome}{generation})"
    )

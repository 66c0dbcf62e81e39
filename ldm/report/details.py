"""The page's data of single episodes and explored goals, as JSON values.

Tuples are numbered in the order in which they are first recalled, and steps refer to them by
number: an id of 16 characters would be repeated a million times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.episode import CALLS
from ldm.explore import ExploredGoal, Tree
from ldm.explore.report import branches
from ldm.llm.calls import Call
from ldm.policy import CONSULTED, VOTES
from ldm.reason.consulting import REASONS
from ldm.reporting import Branch, Reporting
from ldm.run.reading import ReadRun, RecordedEpisode
from ldm.run.statistics import COLUMNS
from ldm.types import StateActionTuple, Step, Trajectory

#: Characters of one text that the page holds; a record may have lines of many megabytes.
LONGEST = 2_000_000
#: Similarities are whole numbers of this fraction.
SIMILARITY = 1000
#: Notes that are shown at steps and so not listed.
SHOWN_BY_STEPS = (VOTES, CONSULTED, CALLS)

Json = dict[str, Any]


@dataclass
class Numbering:
    """The tuples of all runs of a report by number, and the entries that recalled them.

    uses: for each tuple, for each entry that recalled it: the entry's number, the number of steps
    that recalled it, and of those that followed it.
    """

    tuples: dict[str, StateActionTuple | None] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    uses: list[list[int]] = field(default_factory=list)

    def take(self, tuples: Mapping[str, StateActionTuple | None]) -> None:
        """Give numbers to new tuples."""
        for tuple_id, one in tuples.items():
            if tuple_id not in self.numbers:
                self.numbers[tuple_id] = len(self.numbers)
                self.uses.append([])
            if self.tuples.get(tuple_id) is None:
                self.tuples[tuple_id] = one

    def used(self, entry: int, trials: Sequence[Trajectory]) -> None:
        """Count the recalls of an entry."""
        counts: dict[int, list[int]] = {}
        for step in (step for trial in trials for step in trial.steps):
            followed = set(step.followed or ())
            for place, (tuple_id, _) in enumerate(step.recalls):
                count = counts.setdefault(self.numbers[tuple_id], [0, 0])
                count[0] += 1
                count[1] += place in followed
        for number, count in counts.items():
            self.uses[number] += [entry, *count]

    def as_data(self) -> list[Json]:
        """Return the tuples' texts, by number."""
        return [_tuple(tuple_id, self.tuples[tuple_id]) for tuple_id in self.numbers]


def cut(text: str) -> str:
    """Return a text, cut if it is too long for the page."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n… {len(text) - LONGEST} more characters are in the record"


def episode_data(
    run: ReadRun, episode: RecordedEpisode, reporting: Reporting, numbers: Mapping[str, int]
) -> Json:
    """Return an episode of a run with all its trials, its tree and its notes.

    reporting: of the agent's class. numbers: of the recalled tuples.
    """
    result = episode.result
    tree = reporting.tree(result)
    notes = [note for note in result.notes if note.kind not in SHOWN_BY_STEPS]
    return {
        "trials": [_trial(run, episode, place, numbers) for place in range(len(episode.trials))],
        "submitted": result.submitted,
        "end": result.end,
        "error": cut(result.error),
        "texts": [[name, cut(text)] for name, text in episode.texts.items()],
        "notes": [[note.kind, note.trial, note.data] for note in notes],
        "trees": [_tree(tree.headline, tree.paths, tree.branches)] if tree else [],
    }


def goal_data(goal: ExploredGoal) -> Json:
    """Return an explored goal: the ground process as a trial, its trees and added tuples."""
    grounds = [tree.ground for tree in goal.trees][:1]
    return {
        "trials": [{**_steps(ground, {}), "name": "ground process"} for ground in grounds],
        "submitted": 0,
        "end": "error" if goal.error else "",
        "error": cut(goal.error),
        "texts": [],
        "notes": [],
        "trees": [_explored(tree) for tree in goal.trees],
    }


def call_data(calls: Sequence[Call]) -> list[Json]:
    """Return model calls, without the beginnings of prompts that repeat the call before.

    messages: role, number of leading characters shared with the same message of the call before,
    and the rest.
    """
    before: Sequence[str] = ()
    data = []
    for call in calls:
        texts = [cut(message.content) for message in call.request.messages]
        shared = [
            _shared(text, before[i]) if i < len(before) else 0 for i, text in enumerate(texts)
        ]
        roles = (message.role for message in call.request.messages)
        data.append(
            {
                "key": call.key,
                "role": call.role,
                "model": call.request.model,
                "messages": [
                    [role, same, text[same:]]
                    for role, same, text in zip(roles, shared, texts, strict=True)
                ],
                "reply": cut(call.text),
                "finish": call.finish,
                "error": call.error,
                "usage": [call.usage.prompt_tokens, call.usage.completion_tokens],
                "temperature": call.request.sampling.temperature,
            }
        )
        before = texts
    return data


def _shared(text: str, other: str) -> int:
    """Return the number of leading characters that two texts share."""
    lengths = range(1, min(len(text), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: text[:length] != other[:length])


def _trial(run: ReadRun, episode: RecordedEpisode, place: int, numbers: Mapping[str, int]) -> Json:
    trial, facts = episode.trials[place], run.facts(episode, place)
    data = _steps(trial, numbers)
    votes, acted = episode.votes(place), 0
    calls = episode.calls(place)
    for number, (step, entry) in enumerate(zip(trial.steps, data["steps"], strict=True)):
        if step.action and acted < len(votes):
            vote = votes[acted]
            if vote.known:
                entry["votes"] = [list(share) for share in vote.shares]
            if vote.reason:
                entry["asked"] = REASONS.get(vote.reason, vote.reason)
        if step.action and (because := next(facts)):
            entry["because"] = [cut(fact) for fact in because]
        acted += bool(step.action)
        if number in calls:
            entry["calls"] = calls[number]
    if after := calls.get(len(trial.steps)):
        data["calls"] = after
    return data


def _steps(trial: Trajectory, numbers: Mapping[str, int]) -> Json:
    return {
        "opening": cut(trial.opening),
        "score": trial.score,
        "success": trial.success,
        "steps": [_step(step, numbers) for step in trial.steps],
    }


def _step(step: Step, numbers: Mapping[str, int]) -> Json:
    data: Json = {"action": cut(step.action), "seen": cut(step.observation)}
    more = {"thought": cut(step.thought), "reward": step.reward, "invalid": not step.valid}
    data |= {name: value for name, value in more.items() if value}
    if recalls := [pair for pair in step.recalls if pair[0] in numbers]:
        data["recalls"] = [
            number
            for tuple_id, similarity in recalls
            for number in (numbers[tuple_id], round(similarity * SIMILARITY))
        ]
        if step.followed is not None:
            data["followed"] = list(step.followed)
    return data


def _tuple(tuple_id: str, one: StateActionTuple | None) -> Json:
    if one is None:
        return {"id": tuple_id}
    outcome = one.outcome
    return {
        "id": tuple_id,
        "goal": cut(one.goal),
        "kind": one.kind,
        "seen": cut(one.observation),
        "history": cut(one.history.text),
        "action": cut(one.action),
        "origin": one.origin,
        "generation": one.generation,
        "task": one.task_id,
        "step": one.step,
        **({"score": outcome.score, "value": outcome.value} if outcome else {}),
    }


def _explored(tree: Tree) -> Json:
    outcome = f"best score {max(tree.ground.score, tree.best_score):.2f}"
    improved = ", improved" if tree.improved else ""
    title = f"ground process {tree.ground.score:.2f}, {outcome}{improved}"
    data = _tree(title, True, branches(tree))
    if not tree.nodes:
        data["lines"] = ["The ground process has the full score: no tree was grown."]
    return {**data, "added": [_tuple(row.tuple.id, row.tuple) for row in tree.added]}


def _tree(title: str, paths: bool, listed: Iterable[Branch]) -> Json:
    return {"title": title, "paths": paths, "branches": [*map(_branch, listed)], "lines": []}


def _branch(branch: Branch) -> Json:
    data: Json = {"depth": branch.depth, "text": cut(branch.text)}
    for name in ("state", "words", "chosen", "key"):
        if value := getattr(branch, name):
            data[name] = value
    if branch.figures:
        data["figures"] = [list(pair) for pair in branch.figures.items()]
    if branch.texts:
        data["texts"] = [[name, cut(text)] for name, text in branch.texts.items()]
    return data


def entry_rows(
    episodes: Sequence[RecordedEpisode], goals: Sequence[ExploredGoal]
) -> Iterator[Json]:
    """Yield the row of each episode or explored goal in lists."""
    for episode in episodes:
        result = episode.result
        yield {
            "task": result.task.id,
            "kind": result.task.kind,
            "goal": cut(result.task.goal)[:300],
            "outcome": episode.outcome,
            "group": episode.group,
            "score": result.score,
            **{column.name: column.of(result) for column in COLUMNS},
        }
    for goal in goals:
        improved = any(tree.improved for tree in goal.trees)
        yield {
            "task": goal.task.id,
            "kind": goal.task.kind,
            "goal": cut(goal.task.goal)[:300],
            "outcome": "error" if goal.error else "improved" if improved else "unchanged",
            "group": "",
            "score": max((max(t.ground.score, t.best_score) for t in goal.trees), default=0.0),
            "steps": sum(tree.steps for tree in goal.trees),
            "trials": len(goal.trees),
            "seconds": goal.seconds,
        }

"""Tables of `relevance.py` on the learnt rule: the worth of its parts, how sure it is, its cost."""

from __future__ import annotations

import importlib
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import ldm
from benchmarks.relevance import TICKETS, Bench, Line, Lines, paired, rated, tickets_closed
from ldm.memory import environments
from ldm.memory.lessons import lessons_from
from ldm.policy import Policy
from ldm.reason import features, vocabulary
from ldm.reason.detours import without_detours
from ldm.reason.features import Situation
from ldm.reason.pages import read_call
from ldm.reason.relevance import learn
from ldm.reason.vocabulary import INSTEAD, UNREWARDED, Lesson, vocabulary_of
from ldm.types import Step, Task, Trajectory

#: Part that is taken away → the groups of features (`ldm.reason.features.GROUPS`) without weight.
PARTS = {
    "nothing": "",
    "reading of structure": "facts",
    "history": "deeds phase",
    "slots": "filler lines agree",
    "the goal's things": "roles",
    "kinds of task": "kind",
    "learnt weights": "",
    "evidence": "",
}
RELEVANCE = Path(__file__).with_name("relevance.py")
#: Bins of the calibration error, and parts of the episodes of which each is left out once.
BINS, FOLDS = 10, 3
#: Steps that a rule is learnt from; of ALFWorld 19,950 are recorded.
SIZES = (2_000, 20_000, 1_000_000)
#: What is shown at once, and how many actions are possible, in a made-up world.
FACTS, ACTIONS = 2_000, 800


def ablation(bench: Bench) -> Lines:
    """Parts taken away one by one, each in a process of its own; paired with nothing taken away."""
    for part in PARTS:
        yield f"without {part}", partial(_without, bench, part)


def _without(bench: Bench, part: str) -> Line:
    line: Line = {}
    for world in ("BabyAI", "cooking, recipe", "desk"):

        def measure(part: str, world: str = world) -> Any:
            given = [f"--{name}={getattr(bench.arguments, name)}" for name in ("folder", "worlds")]
            command = [sys.executable, str(RELEVANCE), "without", world, "--part", part, *given]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603
            return json.loads(done.stdout)

        solved, whole = (
            bench.stored(f"{world} without {one}", partial(measure, one))
            for one in (part, "nothing")
        )
        line[world] = rated(solved) + (f"; {paired(solved, whole)}" if part != "nothing" else "")
    return line


def solved_without(bench: Bench, name: str, part: str) -> list[bool]:
    """Return which tasks are solved without a part of the rule; learns and plays anew."""
    features.SCALES[[features.GROUPS.index(group) for group in PARTS[part].split()]] = 0.0
    equal = patch.object(vocabulary, "weight_of", lambda _: 1.0)
    with equal if part == "evidence" else nullcontext():
        if name != "desk":
            agent = "no memory" if part == "learnt weights" else "memory"
            return [one.success for one in bench.played(name, bench.worlds()[name], agent)]
        place = bench.memory("desk", desk_episodes(), failures="contrast")
        memory = ldm.Memory.open(place, "desk", embedder=bench.embedder, create=True)
        first = importlib.import_module("desk_benchmark").first_that_worked

        def agent_of_desk(goal: str, seen: str, past: Any) -> str:
            past = past if part != "learnt weights" else ()
            return str(first(memory.recall(goal, seen, 5, past)))

        tickets = importlib.import_module("support_desk")
        return tickets_closed(tickets, agent_of_desk, TICKETS[0], "short", drift=False)


def desk_episodes(count: int = 200) -> list[Trajectory]:
    """Return the desk's recorded episodes as trajectories."""
    episodes = []
    for number, one in enumerate(importlib.import_module("support_desk").recorded_episodes(count)):
        seen = [*(text for text, _ in one.steps[1:]), one.end]
        steps = [Step(call, text) for (_, call), text in zip(one.steps, seen, strict=True)]
        task = Task(f"recorded/{number}", "desk", "recorded", one.goal, "")
        worked = bool(one.success)
        episode = Trajectory(task, one.steps[0][0], tuple(steps), float(worked), worked, "agent")
        episodes.append(episode)
    return episodes


def calibration(bench: Bench) -> Lines:
    """How often left-out steps are decided right, beside how sure the memory says it is."""
    worlds = bench.worlds()
    listed = ("ALFWorld, 24 listed, draw 0", "ALFWorld, 60 listed, draw 0")
    rest = ("BabyAI", "cooking, recipe", "cooking, plain", "Minecraft, test")
    names = (*rest, "home, hotpotqa", "home, webshop", *listed)
    episodes = {name: worlds[name].memory for name in names}
    episodes["desk"] = lambda: bench.memory("desk", desk_episodes(), failures="contrast")
    for name, memory in episodes.items():
        yield name, partial(_calibrated, bench, name, memory, without_search=False)
    for name in listed:
        searches = partial(_calibrated, bench, name, episodes[name], without_search=True)
        yield f"{name}, searches by what counts", searches


def _calibrated(
    bench: Bench, name: str, memory: Callable[[], str], *, without_search: bool
) -> Line:
    def judge() -> list[tuple[float, float, bool]]:
        lessons = lessons_in(memory())
        return [*left_out(lessons, what_counts(lessons) if without_search else lessons)]

    steps = bench.stored(f"{name}, left out{', what counts' * without_search}", judge)
    sure, share, right = np.array(steps, np.float64).T
    clear = sure >= 0.8
    draws = np.random.default_rng(0).random((1_000, len(sure))) < sure
    curve = [
        f"{sure[part].mean():.2f}: {right[part].mean():.2f} ({part.sum()})" for part in bins(sure)
    ]
    return {
        "steps": len(steps),
        "right": f"{100 * right.mean():.1f} %",
        "error": f"{error_of(sure, right):.3f}",
        "of exact confidence": f"{np.mean([error_of(sure, drawn) for drawn in draws]):.3f}",
        "error of the probability": f"{error_of(share, right):.3f}",
        "sure ≥ 0.8": f"{100 * clear.mean():.0f} % of steps",
        "right there": f"{100 * right[clear].mean():.0f} %" if clear.any() else "–",
        "sure: right (steps)": "; ".join(curve),
        "goal": "error ≤ 0.05",
    }


def bins(sure: Any) -> list[Any]:
    """Return the steps of each bin that has any."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [place == i for i in range(BINS) if (place == i).any()]


def error_of(sure: Any, right: Any) -> float:
    """Return the expected calibration error."""
    return float(sum(abs(sure[p].sum() - right[p].sum()) for p in bins(sure)) / len(sure))


def lessons_in(place: str) -> list[Lesson]:
    """Return the recorded steps of a memory."""
    memory = ldm.Memory.open(place, environments(place)[0])
    return lessons_from(memory.contents.recallable.tuples)


def what_counts(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return lessons by which a memory judges itself: in a search, the next step that counts."""
    better = without_detours(lessons, vocabulary_of(lessons))
    return [one for one in better if one.weight >= UNREWARDED or one.weight <= INSTEAD]


def left_out(
    lessons: Sequence[Lesson], judged: Sequence[Lesson]
) -> Iterator[tuple[float, float, bool]]:
    """Yield (sure, probability, right) of each step that worked, learnt from other episodes.

    Right is also an action that nothing known tells apart from the one that was taken.

    judged: the steps, with the actions that are right.
    """
    names = sorted({one.episode for one in lessons})
    random.Random(0).shuffle(names)
    for fold in range(FOLDS):
        held = set(names[fold::FOLDS])
        rule = learn([one for one in lessons if one.episode not in held])
        for one in judged:
            if one.episode in held and one.weight > 0:
                now = Situation(rule.vocabulary, one.goal, one.kind, one.past, one.observation)
                ranking = rule.rank(now, one.possible)
                # Labels of pages are candidates in lower case.
                groups = dict(zip(map(str.lower, ranking.texts), ranking.groups, strict=True))
                most, taken = max(ranking.shares, default=0.0), one.action.lower()
                right = most > 0 and taken in groups and ranking.shares[groups[taken]] == most
                if (call := read_call(one.action)) and call.verb in rule.vocabulary.entered:
                    # What is searched for is made up: other words are not wrong.
                    right = most > 0 and ranking.ranked()[0][0].startswith(f"{call.verb}[")
                yield ranking.sure, most, right


def cost(bench: Bench) -> Lines:
    """Fitting, and a decision: one thread, and all texts have vectors already."""
    for count in SIZES:
        yield f"fit {count:,}", partial(_fitted, bench, count)
    yield "decide, ALFWorld, 1,200 episodes", partial(_decided, bench)
    yield f"decide, {ACTIONS} actions, {FACTS:,} facts", partial(_decided_among, 0)
    yield f"decide, {ACTIONS} actions, after three such sights", partial(_decided_among, 3)


def _fitted(bench: Bench, count: int) -> Line:
    """Learn from so many steps of ALFWorld; beyond those recorded, episodes count repeatedly."""
    lessons = lessons_in(bench.worlds()["ALFWorld, 1,200"].memory())
    again = range(1, count // len(lessons) + 1)
    more = (replace(one, episode=f"{one.episode} {i}") for i in again for one in lessons)
    lessons = [*lessons, *more][:count]
    start = time.perf_counter()
    rule = learn(lessons)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"time": f"{seconds:.1f} s", "features": len(rule.columns), "peak": f"{peak:.1f} GB"}


def _decided(bench: Bench) -> Line:
    """Time decisions in 20 games of valid_seen, which are played twice."""
    world, seconds, decide = bench.worlds()["ALFWorld, 1,200"], list[float](), Policy.decide

    def timed(*given: Any) -> Any:
        start = time.perf_counter()
        decision = decide(*given)
        seconds.append(time.perf_counter() - start)
        return decision

    spec = ldm.Evaluate(world.env, "valid_seen", limit=20, memory=world.memory())
    with patch.object(Policy, "decide", timed):
        for _ in range(2):
            seconds.clear()
            ldm.evaluate(spec, runtime=bench.runtime)
    return times(seconds, "≤ 3 ms")


def _decided_among(before: int) -> Line:
    """Time decisions of a rule that is learnt in a made-up world of many facts and actions.

    before: the number of sights before that of the decision, each with as many facts.
    """
    draw, lessons = random.Random(0), list[Lesson]()
    actions = tuple(
        f"take thing {i % 200} from place {(i + i // 200) % 40}" for i in range(ACTIONS)
    )

    def sight() -> str:
        states = ("open", "shut", "hot", "cold")
        return "\n".join(
            f"thing {i % 200} of place {i % 40} is {draw.choice(states)} in part {i // 200}"
            for i in range(FACTS)
        )

    for episode in range(12):
        past: tuple[tuple[str, str], ...] = ()
        for _ in range(4):
            goal = f"bring thing {draw.randrange(200)} to me"
            one = Lesson(str(episode), goal, "", past, sight(), draw.choice(actions), actions)
            lessons.append(one)
            past = (*past, (one.observation, one.action))
    rule, seconds = learn(lessons), list[float]()
    for one in lessons:
        if len(one.past) != before:
            continue
        observation, start = sight(), time.process_time()
        rule.rank(Situation(rule.vocabulary, one.goal, "", one.past, observation), actions)
        seconds.append(time.process_time() - start)
    return times(seconds, "" if before else "≤ 10 ms")


def times(seconds: Sequence[float], goal: str) -> Line:
    """Return the cells of measured times."""
    half, most = 1000 * np.quantile(seconds, [0.5, 0.99])
    return {
        "decisions": len(seconds),
        "p50": f"{half:.2f} ms",
        "p99": f"{most:.2f} ms",
        "goal": goal,
    }


TABLES = {"ablation": ablation, "calibration": calibration, "cost": cost}

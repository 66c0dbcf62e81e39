"""Measure what refinements add to a memory of few recorded episodes, round after round.

    python benchmarks/learning.py DATA --out OUT [--subject alfworld|webshop|shop]
        [--starts 2 4 10] [--seeds 0 1 2] [--rounds 3] [--without gate explorer …] [--workers 2]
        [--recurring] [--curve FILE.svg]

alfworld (DATA: the official games): from the expert episodes `--starts` are drawn of each kind;
the 180 training games are refined on, round after round, and the 140 games of valid_seen played
after each. webshop (DATA: the official products): the memory of recorded sessions, 341 training
goals, test 0–499. shop (no DATA, our own shop): `--starts` of the shipped sessions, 300 training
goals, the 100 goals of demo_test. Nothing is learnt from test goals, and no training goal is a test
goal (`ldm` checks both). Existing results below OUT are reused, so that an interrupted benchmark
goes on.

--recurring also plays the training goals again, in other words, with the memory before and after.
Here alone what is played was learnt from: the question is whether somebody who asks for the same
again is served better. That is why these goals are played by this program, not by `ldm eval`,
whose leakage check refuses them, and why they count in no other column.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.embed import load_embedder
from ldm.envs import load_env
from ldm.episode import Environment, run_episode
from ldm.explore.refine import ExploredGoal, read_explored_goals
from ldm.memory import Memory
from ldm.reason.offline import OfflineReasoner
from ldm.run.building import read_trajectories
from ldm.run.runner import results
from ldm.run.statistics import Difference, bootstrap, difference, summarize
from ldm.runs import Run, open_run
from ldm.types import EpisodeResult, Task, TimeStep, Trajectory, stable_seed
from tools.drawing import svg


@dataclass(frozen=True, slots=True)
class Subject:
    """What is learnt.

    env: the environment. train, goals: the split and how many of its goals are practised on. test:
    the split that is played. options: of `ldm refine`. recorded: the file below DATA (or the
    checkout) from which episodes are drawn; "" for all sessions of WebShop.
    """

    env: str
    train: str
    goals: int
    test: str
    recorded: str
    options: tuple[str, ...] = ()


SUBJECTS = {
    "alfworld": Subject("alfworld", "train", 180, "valid_seen", "expert_trajectories_train.jsonl"),
    "webshop": Subject("webshop", "train", 341, "test", "", ("--search.budget", "400")),
    "shop": Subject(
        *("webshop", "demo_train", 300, "demo_test"),
        "data/trajectories/webshop/demo_train.jsonl.gz",
        ("--search.budget", "400"),
    ),
}
#: What can be taken away → options of `ldm refine`, and of `ldm eval`. Rounds are taken away by
#: reading an earlier line of the table.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gate": (("--gate", "open"), ()),
    "explorer": (("--explorer", "tree"), ()),
}
LDM = (sys.executable, "-c", "from ldm.cli.app import main; main()")
#: A success rate and the ends of its interval.
Point = tuple[float, float, float]
COLUMNS = ("start", "without", "memory", "ground", "explored", "gain", "s", "success", "score")


@dataclass(frozen=True, slots=True)
class Series:
    """A memory of `episodes` recorded episodes a kind, drawn by `seed`, and its refinements.

    episodes: 0 for all. without: the part that is taken away, "" for none.
    """

    subject: Subject
    episodes: int
    seed: int
    without: str
    folder: Path
    arguments: argparse.Namespace

    @property
    def name(self) -> str:
        """The memory that it starts from."""
        what = f"{self.episodes} a kind, seed {self.seed}" if self.episodes else "all sessions"
        return f"{what}, without {self.without}" if self.without else what

    @property
    def draws(self) -> str:
        """The memories that it starts from, whatever the seed: a line of the curve."""
        return self.name.replace(f", seed {self.seed}", "")

    def rows(self) -> Iterator[tuple[str, Run]]:
        """Build, refine and evaluate; yield a line of the table and the run after each round."""
        self._build()
        start = self._evaluated(0)
        yield self._line("before", start, start, ()), start
        for number in range(1, self.arguments.rounds + 1):
            report = self._refined(number)
            run = self._evaluated(number)
            yield self._line(f"round {number}", run, start, self._exploration(report)), run

    def _build(self) -> None:
        if (self.folder / "train.jsonl").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        chosen = self.folder / "chosen.jsonl"
        if self.subject.recorded:
            records.write(chosen, self._drawn())
            ldm("build-memory", chosen, "--memory", self._memory, "--rebuild")
        else:
            data, sessions = self.arguments.data, self.folder / "sessions"
            ldm_text("import", data / "human_sessions", "--out", sessions / "human.jsonl")
            agents = (data / "react_episodes.jsonl", "--min-reward", 1)
            ldm_text("import", *agents, "--out", sessions / "agent.jsonl")
            options = ("--failures", "keep", "--memory", self._memory, "--rebuild")
            ldm("build-memory", sessions, *options)
            chosen.write_text("", encoding="utf-8")
        chosen.rename(self.folder / "train.jsonl")

    def _drawn(self) -> list[Trajectory]:
        """Return the recorded episodes of the start, so many of each kind."""
        chosen: list[Trajectory] = []
        folder = self.arguments.data or Path(__file__).parents[1]
        recorded = read_trajectories(folder / self.subject.recorded)
        for kind in sorted({trajectory.task.kind for trajectory in recorded}):
            of_kind = sorted((t for t in recorded if t.task.kind == kind), key=lambda t: t.id)
            generator = random.Random(stable_seed(self.seed, kind))
            chosen += generator.sample(of_kind, self.episodes)
        return chosen

    @property
    def _memory(self) -> Path:
        return self.folder / "memory"

    @property
    def _data(self) -> tuple[object, ...]:
        return ("--data", self.arguments.data) if self.arguments.data else ()

    def _refined(self, number: int) -> dict[str, Any]:
        """Return the report of round `number`, with its wall time."""

        def refine() -> dict[str, Any]:
            generations = ldm("memory", "show", "--memory", self._memory)["generations"]
            before = self._generation(number - 1)
            if generations[-1]["number"] > before:  # an earlier attempt that was not reported
                ldm_text("memory", "rollback", before, "--yes", "--memory", self._memory)
            start = time.perf_counter()
            subject = self.subject
            report: dict[str, Any] = ldm(
                *("refine", "--env", subject.env, "--split", subject.train),
                *("--limit", self.arguments.goals or subject.goals),
                *("--reuse-goals", *self._data, "--memory", self._memory),
                *("--runs", self.folder / "runs", "--workers", self.arguments.workers),
                *subject.options,
                *(PARTS[self.without][0] if self.without else ()),
            )
            return report | {"wall": round(time.perf_counter() - start)}

        return self._stored(f"refine-{number}.json", refine)

    def _generation(self, number: int) -> int:
        """Return the newest generation after round `number`; a vain one adds none."""
        reports = [self.folder / f"refine-{earlier}.json" for earlier in range(1, number + 1)]
        made = [json.loads(path.read_text("utf-8"))["generation"] for path in reports]
        return max((one for one in made if one is not None), default=0)

    def _evaluated(self, number: int) -> Run:
        """Return the evaluation on the test goals after round `number`."""

        def evaluate() -> dict[str, Any]:
            report: dict[str, Any] = ldm(
                *("eval", "--env", self.subject.env, "--split", self.subject.test),
                *("--agent", "ldm", *self._data, "--memory", self._memory),
                *("--generation", self._generation(number), "--runs", self.folder / "evaluations"),
                *("--workers", self.arguments.workers),
                *(PARTS[self.without][1] if self.without else ()),
            )
            return report

        return recorded(self._stored(f"eval-{number}.json", evaluate)["run"])

    def _stored(self, name: str, make: Any) -> dict[str, Any]:
        path = self.folder / name
        if not path.exists():
            path.write_text(json.dumps(make()), encoding="utf-8")
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return stored

    def _exploration(self, report: dict[str, Any]) -> tuple[str, ...]:
        """Return cells on the training goals: solved by the ground process, by exploration."""
        explored = read_explored_goals(recorded(report["run"]))
        ground = sum(one.trees[0].ground.success for one in explored if one.trees)
        missed = [one.trees[0] for one in explored if one.trees and not one.trees[0].ground.success]
        solved = sum(tree.best_score >= 1 for tree in missed)
        gain = report["gate"]["gain"]
        return (
            f"{ground} of {len(explored)}",
            f"{solved} of {len(missed)}",
            percent(*gain) if gain else "",
            f"{report['wall']}",
        )

    def _line(self, name: str, run: Run, start: Run, exploration: Sequence[str]) -> str:
        rate, low, high = _point(run)
        success = f"{100 * rate:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
        score = f"{np.mean([one.score for one in results(run)]):.3f}"
        if run != start:
            success += f"; {paired(difference(results(run), results(start)))}"
            score += f"; {scores_paired(results(run), results(start))}"
        cells = (self.name, self.without, name, *(exploration or ("", "", "", "")), success, score)
        return f"| {' | '.join(cells)} |"

    def recurring(self) -> str:
        """Play the explored goals again in other words, and say what they earn before and after."""
        last = self.arguments.rounds

        def play() -> dict[str, Any]:
            report = json.loads((self.folder / f"refine-{last}.json").read_text(encoding="utf-8"))
            explored = read_explored_goals(recorded(report["run"]))
            options = {"data": str(self.arguments.data)} if self.arguments.data else {}
            env_class = load_env(self.subject.env)
            env: Environment = env_class(env_class.Options(**options))
            scores = [
                [one.score for one in replayed(env, self._memory, explored, generation)]
                for generation in (0, last)
            ]
            improved = [
                any(tree.best_score > tree.ground.score for tree in one.trees) for one in explored
            ]
            return {"scores": scores, "improved": improved}

        played = self._stored("recurring.json", play)
        before, after = (np.array(scores) for scores in played["scores"])
        improved = np.array(played["improved"], dtype=bool)
        lines = []
        for what, chosen in (("all", np.ones(len(before), bool)), ("improved", improved)):
            gains = after[chosen] - before[chosen]
            low, high = bootstrap(gains) if len(gains) and np.ptp(gains) else (0.0, 0.0)
            lines.append(
                f"{self.name}: {what} {int(chosen.sum())} training goals in other words: "
                f"{before[chosen].mean():.3f} → {after[chosen].mean():.3f}, "
                f"{percent(float(gains.mean()), low, high)}, "
                f"{int((gains > 0).sum())} better, {int((gains < 0).sum())} worse"
            )
        return "\n".join(lines)


class Reworded:
    """An environment whose present goal is asked for in other words, wherever it is shown."""

    def __init__(self, env: Environment, goal: str, words: str) -> None:
        """Replace `goal` by `words` in what `env` says."""
        self._env, self._goal, self._words = env, goal, words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, task: Task) -> TimeStep:
        """Start the task."""
        return self._reworded(self._env.reset(task))

    def step(self, action: str) -> TimeStep:
        """Execute an action."""
        return self._reworded(self._env.step(action))

    def _reworded(self, now: TimeStep) -> TimeStep:
        listed = now.admissible
        if listed is not None:
            listed = tuple(action.replace(self._goal, self._words) for action in listed)
        observation = now.observation.replace(self._goal, self._words)
        return replace(now, observation=observation, admissible=listed)


_BEGINNING = re.compile(r"^(find me|show me|i need|i want|i am looking for|buy)\s+", re.IGNORECASE)
_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars", re.IGNORECASE)


def reworded(goal: str) -> str:
    """Return a goal in other words: another beginning, and the price before the thing."""
    price = _PRICE.search(goal)
    thing = _BEGINNING.sub("", _PRICE.sub("", goal).strip())
    limit = f"for less than {price[1]} dollars, " if price else ""
    return f"{limit}could you get me {thing}?"


def replayed(
    env: Environment, memory: Path, explored: Sequence[ExploredGoal], generation: int
) -> list[EpisodeResult]:
    """Play explored goals again in other words, with one generation of a memory."""
    embedder = load_embedder()
    opened = Memory.open(str(memory), env.card.name, embedder=embedder, generation=generation)
    agent = LdmAgent(LdmOptions(), Resources(opened, OfflineReasoner(embedder)))
    played = []
    for one in explored:
        words = reworded(one.task.goal)
        other: Any = Reworded(env, one.task.goal, words)
        result, _ = run_episode(other, agent, replace(one.task, goal=words))
        played.append(result)
    return played


def main() -> None:
    """Print a Markdown table, a line for each memory as soon as it was evaluated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--subject", default="alfworld", choices=list(SUBJECTS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--starts", type=int, nargs="*")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--goals", type=int, help="Training goals, if not all that are meant.")
    parser.add_argument("--without", nargs="*", default=[""], choices=["", *PARTS])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--recurring", action="store_true")
    parser.add_argument("--curve", type=Path, help="Where to draw the rounds.")
    arguments = parser.parse_args()
    subject = SUBJECTS[arguments.subject]
    starts = {"alfworld": [2, 4, 10], "webshop": [0], "shop": [20, 50]}[arguments.subject]
    seeds = arguments.seeds if arguments.subject != "webshop" else [0]
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    rounds: dict[tuple[str, int], list[Run]] = {}
    recurring = []
    for without in arguments.without:
        for seed in seeds:
            for episodes in arguments.starts or starts:
                name = "-".join(filter(None, (str(episodes), str(seed), without)))
                folder = arguments.out / name
                series = Series(subject, episodes, seed, without, folder, arguments)
                for number, (line, run) in enumerate(series.rows()):
                    print(line, flush=True)
                    rounds.setdefault((series.draws, number), []).append(run)
                if arguments.recurring:
                    recurring.append(series.recurring())
    print(*recurring, sep="\n")
    if arguments.curve:
        title = f"{arguments.subject}: practice on {arguments.goals or subject.goals} goals"
        ticks = {0.0: "before"} | {float(n): f"round {n}" for n in range(1, arguments.rounds + 1)}
        lines: dict[str, list[tuple[float, float, float, float]]] = {}
        for (draws, number), runs in rounds.items():
            lines.setdefault(draws, []).append((float(number), *_point(*runs)))
        drawn = svg(lines, title, f"success on {subject.test}, mean of the seeds", ticks)
        arguments.curve.write_text(drawn, encoding="utf-8")


def _point(*runs: Run) -> Point:
    """Return the success rate of runs on the same tasks, and its interval over the tasks."""
    overall = summarize([one for run in runs for one in results(run)]).overall
    low, high = overall.interval or (0.0, 0.0)
    return overall.success_rate or 0.0, low, high


def paired(pair: Difference) -> str:
    """Return a paired difference of success with McNemar's test, as text."""
    low, high = pair.interval or (pair.mean, pair.mean)
    return (
        f"{percent(pair.mean, low, high)}, "
        f"{pair.only_first}:{pair.only_second}, p = {pair.p_value:.2g}"
    )


def scores_paired(after: Sequence[EpisodeResult], before: Sequence[EpisodeResult]) -> str:
    """Return a paired difference of scores, as text."""
    gains = np.array([a.score - b.score for a, b in zip(after, before, strict=True)])
    mean = float(gains.mean())
    low, high = bootstrap(gains) if np.ptp(gains) else (mean, mean)
    return percent(mean, low, high)


def percent(mean: float, low: float, high: float) -> str:
    """Return a difference and its interval in points, as text."""
    return f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def recorded(directory: str) -> Run:
    """Return a recorded run."""
    return open_run(directory, Path())


def ldm(*arguments: object) -> Any:
    """Run a command of ldm and return its JSON output."""
    return json.loads(ldm_text(*arguments, "--json"))


def ldm_text(*arguments: object) -> str:
    """Run a command of ldm and return its output."""
    process = subprocess.run(  # noqa: S603 - our own command
        [*LDM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout


if __name__ == "__main__":
    main()

"""ScienceWorld, which nobody here built or tuned to: what is learnt against the nearest neighbour.

    pip install scienceworld                                # needs Java
    python benchmarks/science_world.py [--episodes 6] [--variations 5]

Nine tasks of ScienceWorld (arXiv 2203.07540) in its easy form, with some hundred to a thousand
possible actions at each step. Episodes are the package's own solutions of training variations, by
the names that it lists; steps that it does not list teach nothing. Played are test variations, 40
steps each. Prints the mean score and the tasks solved, of what is learnt, of the nearest recorded
state (words weighed by TF-IDF) whose action is possible, and of random actions.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ldm.reason.relevance import learn
from ldm.reason.vocabulary import Lesson
from ldm.types import Past

TASKS = (
    *("find-living-thing", "find-non-living-thing", "find-plant", "find-animal"),
    *("lifespan-longest-lived", "lifespan-shortest-lived"),
    *("lifespan-longest-lived-then-shortest-lived", "power-component", "test-conductivity"),
)
STEPS = 40
Choose = Callable[[str, str, Past, str, Sequence[str]], str]


def shown(observation: str, info: dict[str, Any]) -> str:
    """Return what is seen, around the agent and in its inventory too."""
    around = "" if info["look"] in observation else info["look"]
    return "\n".join(filter(None, (observation, around, info["inv"])))


def possible(info: dict[str, Any]) -> tuple[str, ...]:
    """Return the possible actions; waiting is always one."""
    listed = (one for one in info["valid"] if not one.startswith(("reset", "close ")))
    return tuple(dict.fromkeys([*listed, "wait1"]))


def named(action: str, listed: Sequence[str]) -> str:
    """Return the listed action that has most words of a solution's and no others, or ""."""
    verb, allowed = action.split(maxsplit=1)[0], {*action.split()}
    same = [one for one in listed if one.split()[0] == verb and {*one.split()} <= allowed]
    return max(same, key=lambda one: (one == action, len({*one.split()}), -len(one)), default="")


def spread(variations: Sequence[int], count: int) -> Sequence[int]:
    """Return so many variations at even distances: those beside each other differ little."""
    return variations[:: max(1, len(variations) // count)][:count]


def started(world: Any, task: str, variation: int, *, solved: bool = False) -> tuple[str, Any]:
    """Start a variation; return the first observation and the facts beside it."""
    world.load(task, variation, "easy", generateGoldPath=solved)
    world.reset()
    observation, _, _, info = world.step("look around")
    return observation, info


def lessons(world: Any, task: str, variation: int) -> Iterator[Lesson]:
    """Yield the steps of the package's solution of a variation."""
    observation, info = started(world, task, variation, solved=True)
    goal, past = info["taskDesc"], list[tuple[str, str]]()
    for action in world.get_gold_action_sequence():
        listed, sight = possible(info), shown(observation, info)
        chosen = named(action, listed)
        if not chosen and action.startswith("open door"):  # all are open
            continue
        if chosen:
            yield Lesson(f"{task} {variation}", goal, task, tuple(past), sight, chosen, listed)
        past.append((sight, chosen or action))
        observation, _, done, info = world.step(chosen or action)
        if done:
            return


def learnt(recorded: Sequence[Lesson]) -> Choose:
    """Return the decisions of what is learnt."""
    rule = learn(recorded)

    def choose(goal: str, kind: str, past: Past, sight: str, listed: Sequence[str]) -> str:
        return rule.rank(rule.situation(goal, kind, past, sight), listed).ranked()[0][0]

    return choose


def nearest(recorded: Sequence[Lesson]) -> Choose:
    """Return the decisions of the nearest recorded state."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def text(goal: str, past: Past, sight: str) -> str:
        done = " ".join(f"did_{action}".replace(" ", "_") for _, action in past[-3:])
        return f"{goal} {done} {sight}"

    words = TfidfVectorizer(token_pattern=r"\S+")  # noqa: S106
    known = words.fit_transform(text(one.goal, one.past, one.observation) for one in recorded)

    def choose(goal: str, _: str, past: Past, sight: str, listed: Sequence[str]) -> str:
        alike = (known @ words.transform([text(goal, past, sight)]).T).toarray()[:, 0]
        ranked = (recorded[i].action for i in np.argsort(-alike, kind="stable"))
        return next((action for action in ranked if action in listed), listed[0])

    return choose


def played(world: Any, task: str, variation: int, choose: Choose) -> float:
    """Return the score of an episode, in [0, 1]; a mistake that ends it counts 0."""
    observation, info = started(world, task, variation)
    goal, past = info["taskDesc"], list[tuple[str, str]]()
    for _ in range(STEPS):
        sight = shown(observation, info)
        action = choose(goal, task, tuple(past), sight, possible(info))
        past.append((sight, action))
        observation, _, done, info = world.step(action)
        if done:
            break
    return float(max(0, info["score"])) / 100


def main() -> None:
    """Record, learn, play and print."""
    from scienceworld import ScienceWorldEnv

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=6, help="recorded of each task")
    parser.add_argument("--variations", type=int, default=5, help="played of each task")
    arguments = parser.parse_args()
    world = ScienceWorldEnv("", envStepLimit=200)
    recorded, tests = list[Lesson](), list[tuple[str, int]]()
    for task in TASKS:
        world.load(task, 0, "easy")
        for variation in spread(world.get_variations_train(), arguments.episodes):
            recorded += lessons(world, task, variation)
        tests += [(task, x) for x in spread(world.get_variations_test(), arguments.variations)]
    draw = random.Random(0)
    agents: dict[str, Choose] = {
        "learnt": learnt(recorded),
        "nearest": nearest(recorded),
        "random": lambda _goal, _kind, _past, _sight, listed: draw.choice(listed),
    }
    print(f"{len(recorded)} recorded steps, {len(tests)} test variations")
    for name, choose in agents.items():
        scores = np.array([played(world, *one, choose) for one in tests])
        print(f"{name}: score {scores.mean():.3f}, solved {int((scores >= 1).sum())}", flush=True)
        for task in TASKS:
            print(f"    {task} {scores[[of == task for of, _ in tests]].mean():.2f}", flush=True)


if __name__ == "__main__":
    main()

"""When a model is consulted: the threshold from training episodes, and models of variable skill.

    python benchmarks/consulting.py thresholds --env alfworld
    python benchmarks/consulting.py skill --games 40
    python benchmarks/consulting.py skill --env textcraft --games 10

`thresholds` lets each training episode be decided with the memory of the others, step by step along
the recorded way, and says how often the vote's action is the recorded one, by the share on which
recalls agree. `skill` plays our own tasks with a scripted model that knows a solver's next action
with probability p, else acts at random among plausible ones: in ALFWorld among those listed, in
TextCraft, which lists none, among the crafts of its listing.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.embed import load_embedder
from ldm.envs import load_env
from ldm.episode import run_episode
from ldm.llm import GREEDY, Completion, Message, Sampling
from ldm.llm.answers import form_of
from ldm.memory import FormationOptions, Memory, build
from ldm.policy import CONSULTED, Policy, PolicyOptions
from ldm.reason import State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompting import Consult
from ldm.run.builders import Knowledge
from ldm.types import EpisodeResult, History, Trajectory, Usage, stable_seed
from ldm.worlds.alfworld.games import own_games
from ldm.worlds.textcraft.environment import TextCraft
from tools.alfworld.solver import plan
from tools.textcraft.solver import listed
from tools.textcraft.solver import plan as crafts

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories"
FILES = {
    "alfworld": "demo_train.jsonl",
    "textcraft": "train.jsonl.gz",
    "webshop": "demo_train.jsonl.gz",
}
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SKILLS = (0.5, 0.7, 0.8, 0.9, 1.0)
IDLE = ("help", "look", "inventory", "examine")


def main() -> None:
    """Run the part that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("thresholds", "skill"))
    parser.add_argument("--env", choices=sorted(FILES), default="alfworld")
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--budget", type=int, default=50, help="steps of an episode")
    parser.add_argument("--certainty", type=float, default=0.0, help="0: as left-out steps tell")
    arguments = parser.parse_args()
    if arguments.part == "skill" and arguments.env == "webshop":
        parser.error("there is no solver for webshop: skill plays alfworld and textcraft")
    knowledge, episodes = remembered(arguments.env)
    if arguments.part == "thresholds":
        thresholds(arguments.env, knowledge, episodes)
    else:
        skill(knowledge, arguments)


def remembered(env: str) -> tuple[Knowledge, list[Trajectory]]:
    """Return a memory of the shipped training episodes, and the episodes."""
    episodes = list(records.read(TRAJECTORIES / env / FILES[env], Trajectory))
    embedder, place = load_embedder(), tempfile.mkdtemp()
    build(place, episodes, embedder, OfflineReasoner, options=FormationOptions())
    memory = Memory.open(place, env, embedder=embedder)
    return Knowledge(embedder, OfflineReasoner(embedder), memory), episodes


def thresholds(env: str, knowledge: Knowledge, episodes: Sequence[Trajectory]) -> None:
    """Print how often the vote is right where recalls agree to at least a share, and how often."""
    env_class = load_env(env)
    world = env_class(env_class.Options())
    tasks = {task.id: task for task in world.tasks(episodes[0].task.split)}
    rows: list[tuple[float, float, bool]] = []
    for episode in episodes:
        view = _memory(knowledge).without(trajectories=[episode.id])
        policy = Policy(view, knowledge.reasoner, PolicyOptions())
        now = world.reset(tasks[episode.task.id])
        batches = policy.batches(episode.task.goal)
        for past, observation, step in episode.states():
            history = History(past=past)
            state_of = State(episode.task.goal, history, observation, now.admissible)
            state, recalls = policy._recalled(state_of, batches)
            vote = knowledge.reasoner.act(state, recalls)
            agreed = knowledge.reasoner.agree(state, recalls)
            near = max((recall.similarity for recall in recalls), default=0.0)
            rows.append((agreed.share, near, vote.action == step.action))
            now = world.step(step.action)
    print(json.dumps({"env": env, "states": len(rows), "right": _right(rows)}))
    for share in SHARES:
        sure = [row for row in rows if row[0] >= share]
        unsure = [row for row in rows if row[0] < share]
        print(
            f"share >= {share}: {len(sure) / len(rows):.2f} of states, right {_right(sure):.3f}; "
            f"below: right {_right(unsure):.3f}"
        )
    for near in (0.4, 0.5, 0.6, 0.7, 0.8):
        far = [row for row in rows if row[1] < near]
        print(f"nearest < {near}: {len(far) / len(rows):.2f} of states, right {_right(far):.3f}")


def _memory(knowledge: Knowledge) -> Memory:
    if knowledge.memory is None:
        raise RuntimeError("a memory was built above")
    return knowledge.memory


def _right(rows: Sequence[tuple[float, float, bool]]) -> float:
    return sum(row[2] for row in rows) / max(1, len(rows))


class Skilled:
    """A model that knows a solver's next action with probability p, in one game.

    The solver plans from where the game stands, whoever brought it there.
    """

    name = "skilled"

    def __init__(self, solved: Any, p: float, key: str) -> None:
        """Take the game, or in TextCraft its solution.

        key: seeds what is drawn, at each state alike for every mode.
        """
        self._solved, self._p, self._key = solved, p, key

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Answer a question for an action."""
        question = messages[-1].content
        text = json.dumps({"choice": 0, "action": self._action(question)})
        characters = sum(len(message.content) for message in messages)
        return Completion(
            text,
            Usage(1, characters // 4, 0, 20),
            form_of(schema).read(text)[0] if schema else None,
        )

    def _action(self, question: str) -> str:
        now = re.findall(r"<(?:now|start)>\n(.*)", question)[-1]
        done = [
            (action, now if answer == "what you see now" else answer)
            for action, answer in re.findall(
                r"^\d+\. (.*?): (.*)$", question.partition("<examples>")[0], re.MULTILINE
            )
        ]
        listed = self._plausible(question)
        generator = random.Random(stable_seed(self._key, self._p, [action for action, _ in done]))
        known = self._next(done)
        if known in listed and generator.random() < self._p:
            return known
        return generator.choice([one for one in listed if not one.startswith(IDLE)])

    def _plausible(self, question: str) -> list[str]:
        """Return the actions that the question lists."""
        _, _, listed_part = question.partition("<possible-actions>\n")
        listed = []
        for line in listed_part.partition("\n</possible")[0].split("; "):
            first, *numbers = line.split(", ")  # "go to shelf 1, 2"
            listed += [first, *(f"{first.rpartition(' ')[0]} {number}" for number in numbers)]
        return listed

    def _next(self, done: Sequence[tuple[str, str]]) -> str:
        """Return the solver's next action; done: the actions so far, with what came of them."""
        return plan(self._solved, [action for action, _ in done])[0]


class SkilledCrafter(Skilled):
    """The same for TextCraft, where nothing is listed and what is held in excess does no harm."""

    def _plausible(self, question: str) -> list[str]:
        return [*self._solved, *re.findall(r"^craft .* using .*$", question, re.MULTILINE)]

    def _next(self, done: Sequence[tuple[str, str]]) -> str:
        left = [action for action, answer in done if answer.startswith(("Got ", "Crafted "))]
        for action in self._solved:
            if action not in left:
                return action
            left.remove(action)
        return ""


def skill(knowledge: Knowledge, arguments: argparse.Namespace) -> None:
    """Print success, calls a step and tokens an episode, by the model's skill and the mode."""
    env_class = load_env(arguments.env)
    env = env_class(env_class.Options())
    model_class: type[Skilled] = SkilledCrafter if isinstance(env, TextCraft) else Skilled
    tasks = list(env.tasks("test" if isinstance(env, TextCraft) else "demo_test"))
    tasks = tasks[:: max(1, len(tasks) // arguments.games)][: arguments.games]
    solved: dict[str, Any]
    if isinstance(env, TextCraft):
        solved = {
            task.id: crafts(task.source, listed(env.reset(task).observation), env.book)
            for task in tasks
        }
    else:
        solved = {game.id: game for game in own_games("demo_test")}
    for p in (0.0, *SKILLS):
        modes: tuple[Consult, ...] = ("always", "unsure") if p else ("never",)
        for mode in modes:
            options = LdmOptions(
                consult=mode, budget=arguments.budget, certainty=arguments.certainty
            )
            results = []
            for task in tasks:
                model = model_class(_solved(solved, task.id), p, task.id)
                resources = Resources(knowledge.memory, reasoner_llm=model, ask=knowledge.ask)
                result, _ = run_episode(env, LdmAgent(options, resources), task)
                if result.error:
                    raise RuntimeError(result.error)
                results.append(result)
            print(f"p={p} {mode}: {_outcome(results)}", flush=True)


def _outcome(results: Sequence[EpisodeResult]) -> str:
    """Return in words what episodes came to, with why the model was asked how often."""
    count, steps = len(results), sum(result.env_steps for result in results)
    notes = (note for result in results for note in result.notes if note.kind == CONSULTED)
    why = Counter(one for note in notes for one in note.data["steps"])
    return (
        f"{sum(result.success for result in results)}/{count}, "
        f"{sum(result.usage.calls for result in results) / steps:.2f} calls a step, "
        f"{steps / count:.1f} steps, "
        f"{sum(result.usage.prompt_tokens for result in results) // count} tokens an episode "
        f"{dict(why)}"
    )


def _solved(by_id: dict[str, Any], task: str) -> Any:
    return next(one for name, one in by_id.items() if name in task or task in name)


if __name__ == "__main__":
    main()

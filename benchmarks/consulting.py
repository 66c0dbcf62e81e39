"""When a model is consulted: the threshold from training episodes, and models of variable skill.

    python benchmarks/consulting.py thresholds --env alfworld
    python benchmarks/consulting.py skill --games 40

`thresholds` lets each training episode be decided with the memory of the others, step by step along
the recorded way, and says how often the vote's action is the recorded one, by the share on which
recalls agree. `skill` plays ALFWorld's own games with a scripted model that knows a solver's next
action with probability p, else acts at random among plausible ones.
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
from ldm.envs.alfworld.games import own_games
from ldm.episode import run_episode
from ldm.experiments.builders import Knowledge
from ldm.llm import GREEDY, Completion, Message, Sampling
from ldm.llm.structured import form_of
from ldm.memory import FormationOptions, Memory, build
from ldm.policy import CONSULTED, Observed, Policy, PolicyOptions
from ldm.reasoner.consulting import CERTAINTY, SHARE, Consult
from ldm.reasoner.offline import OfflineReasoner
from ldm.types import Trajectory, Usage, stable_seed
from tools.alfworld.solver import plan

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories"
FILES = {"alfworld": "demo_train.jsonl", "webshop": "demo_train.jsonl.gz"}
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SKILLS = (0.5, 0.7, 0.9, 1.0)
IDLE = ("help", "look", "inventory", "examine")


def main() -> None:
    """Run the part that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("thresholds", "skill"))
    parser.add_argument("--env", choices=sorted(FILES), default="alfworld")
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--budget", type=int, default=50, help="steps of an episode")
    parser.add_argument("--certainty", type=float, default=CERTAINTY)
    parser.add_argument("--share", type=float, default=SHARE, help="of the steps, asked at most")
    arguments = parser.parse_args()
    knowledge, episodes = remembered(arguments.env)
    if arguments.part == "thresholds":
        thresholds(arguments.env, knowledge, episodes)
    else:
        skill(knowledge, arguments.games, arguments.budget, arguments.certainty, arguments.share)


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
            state_of = Observed(episode.task.goal, past, observation, now.admissible)
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
    """A model that knows the next action of a solver with probability p, in one game."""

    name = "skilled"

    def __init__(self, steps: Sequence[str], p: float, key: str) -> None:
        """Take the solver's plan. key: seeds what is drawn, at each state alike for every mode."""
        self._plan, self._p, self._key = tuple(steps), p, key

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: type[Any] | None = None,
        sampling: Sampling = GREEDY,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Answer a question for sub-goals or for an action."""
        question = messages[-1].content
        reply: dict[str, Any] = {"sub_goals": []}
        if "Name its" not in question:
            action = self._action(question)
            reply = {"held": "", "proof": "", "complete": 0, "choice": 0, "action": action}
        text = json.dumps(reply)
        characters = sum(len(message.content) for message in messages)
        return Completion(
            text,
            Usage(1, characters // 4, 0, 20),
            form_of(schema).read(text)[0] if schema else None,
        )

    def _action(self, question: str) -> str:
        _, _, listed_part = question.partition("<possible-actions>\n")
        listed = listed_part.partition("\n</possible")[0].split("; ")
        done = re.findall(r"^\d+\. (.*?): ", question.partition("<examples>")[0], re.MULTILINE)
        generator = random.Random(stable_seed(self._key, self._p, done))
        known = self._next(done, listed)
        if known in listed and generator.random() < self._p:
            return known
        return generator.choice([one for one in listed if not one.startswith(IDLE)])

    def _next(self, done: Sequence[str], listed: Sequence[str]) -> str:
        """Return the plan's next action from where the game stands."""
        left, place = list(done), ""
        here = next((one[6:] for one in reversed(done) if one.startswith("go to ")), "")
        for action in self._plan:
            if action.startswith("go to "):
                place = action[6:]
            elif action in left:
                left.remove(action)
            else:
                if here != place:
                    return f"go to {place}"
                if action in listed:
                    return action
                # Something else is in the hand, or was moved: put it down.
                return next((one for one in listed if one.startswith(("move ", "put "))), action)
        return ""


def skill(knowledge: Knowledge, count: int, budget: int, certainty: float, share: float) -> None:
    """Print success, calls a step and tokens an episode, by the model's skill and the mode.

    budget: steps of an episode. certainty: from which share on memory is sure. share: of the steps
    of an episode, the most at which the model is asked.
    """
    env_class = load_env("alfworld")
    env = env_class(env_class.Options())
    plans = {game.id: plan(game) for game in own_games("demo_test")}
    tasks = list(env.tasks("demo_test"))[:: max(1, 60 // count)][:count]
    for p in (0.0, *SKILLS):
        modes: tuple[Consult, ...] = ("always", "unsure") if p else ("never",)
        for mode in modes:
            solved = steps = calls = tokens = 0
            why: Counter[str] = Counter()
            for task in tasks:
                model = Skilled(_plan_of(plans, task.id), p, task.id)
                resources = Resources(knowledge.memory, reasoner_llm=model, ask=knowledge.ask)
                options = LdmOptions(
                    consult=mode, budget=budget, certainty=certainty, consult_share=share
                )
                agent = LdmAgent(options, resources)
                result, _ = run_episode(env, agent, task)
                if result.error:
                    raise RuntimeError(result.error)
                solved += result.success
                steps += result.env_steps
                calls += result.usage.calls
                tokens += result.usage.prompt_tokens
                why.update(
                    one
                    for note in result.notes
                    if note.kind == CONSULTED
                    for one in note.data["steps"]
                )
            print(
                f"p={p} {mode}: {solved}/{len(tasks)}, {calls / steps:.2f} calls a step, "
                f"{steps / len(tasks):.1f} steps, {tokens // len(tasks)} tokens an episode",
                dict(why),
                flush=True,
            )


def _plan_of(plans: dict[str, tuple[str, ...]], task: str) -> tuple[str, ...]:
    return next(steps for game, steps in plans.items() if game in task or task in game)


if __name__ == "__main__":
    main()

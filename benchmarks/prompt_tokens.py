"""Tokens of an episode in four ways of asking, on the same recorded ways; no model is needed.

    python benchmarks/prompt_tokens.py --env alfworld --episodes 10

Every so many shipped episodes one is held out, and the others form the memory. Along its recorded
way, each state is put to `ldm` (asking always, and where memory is unsure), to `--preset ldm2` (a
process with each batch, and the choice among them), and to ReAct, which answers with the recorded
action and no thought. A token is four bytes. Histories in the memory are the offline reasoner's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.agents import Resources
from ldm.agents.react import ReactAgent
from ldm.embed import Embedder, load_embedder
from ldm.envs import load_env
from ldm.envs.metadata import card_of
from ldm.episode import run_episode
from ldm.llm import Completion, Message
from ldm.llm.answers import form_of
from ldm.memory import FormationOptions, Memory, build
from ldm.policy import Policy, PolicyOptions
from ldm.reason import Process, State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.run.builders import Knowledge
from ldm.types import Card, History, Trajectory, Usage

TRAJECTORIES = Path(__file__).resolve().parent.parent / "data" / "trajectories"
FILES = {
    "alfworld": "demo_train.jsonl",
    "textcraft": "train.jsonl.gz",
    "webshop": "demo_train.jsonl.gz",
}
#: Of a decision: what `--preset ldm2` sets for it.
PAPER: dict[str, Any] = {"k": 5, "wording": "reworded", "index": "llm"}
#: Texts as long as the models of the lab notes write them.
SUMMARY = "Searched three places; found the thing and took it. It is held now."


class Follower:
    """A model that answers with the recorded action, and counts what it is asked and says."""

    name = "follower"

    def __init__(self, actions: Sequence[str]) -> None:
        self.actions, self.at = actions, 0
        self.calls = self.tokens = 0

    def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Answer a form, or a question without one by the next action."""
        schema = options.get("schema")
        action = self.actions[min(self.at, len(self.actions) - 1)]
        if schema is None:
            text, value = f"Act: {action}", None
            self.at += 1
        else:
            value, _ = form_of(schema).read(self._filled(messages[-1].content, action))
            text = form_of(schema).write(value) if value is not None else ""
        self.calls += 1
        self.tokens += (sum(len(m.content.encode()) for m in messages) + len(text.encode())) // 4
        return Completion(text, Usage(1), value, malformed=schema is not None and value is None)

    @staticmethod
    def _filled(question: str, action: str) -> str:
        if "Which sub-goals" in question:
            return json.dumps({"sub_goals": ["find it", "bring it"], "complete": []})
        if "Summarise" in question:
            return json.dumps({"summary": SUMMARY})
        if "the number of its type" in question or "Which attempt" in question:
            return json.dumps({"item_1": 1})
        return json.dumps({"choice": 0, "action": action})


def main() -> None:
    """Hold episodes out, follow them in each way, print means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", choices=sorted(FILES), default="alfworld")
    parser.add_argument("--episodes", type=int, default=10)
    arguments = parser.parse_args()
    file = TRAJECTORIES / arguments.env / FILES[arguments.env]
    every = sorted(records.read(file, Trajectory), key=lambda one: one.id)
    solved = [one for one in every if one.success]
    held_out = solved[:: max(1, len(solved) // arguments.episodes)][: arguments.episodes]
    others = [one for one in solved if one not in held_out]
    embedder, place = load_embedder(), tempfile.mkdtemp()
    build(place, others, embedder, OfflineReasoner, options=FormationOptions())
    memory = Memory.open(place, arguments.env, embedder=embedder)
    counts: dict[str, list[Follower]] = {}
    for episode in held_out:
        for way, model in followed(arguments.env, episode, memory, embedder).items():
            counts.setdefault(way, []).append(model)
    steps = sum(len(one.steps) for one in held_out)
    print(f"{arguments.env}: {len(held_out)} episodes, {steps / len(held_out):.1f} steps each")
    react = sum(model.tokens for model in counts["react, shown actions"])
    for way, models in counts.items():
        tokens = sum(model.tokens for model in models)
        calls = sum(model.calls for model in models)
        print(
            f"{way}: {tokens / len(models):.0f} tokens an episode, {calls / steps:.2f} calls a "
            f"step, {tokens / react:.2f} of ReAct's tokens"
        )


def followed(
    env: str, episode: Trajectory, memory: Memory, embedder: Embedder
) -> dict[str, Follower]:
    """Return the models that were asked in each way along one episode."""
    world = load_env(env)(load_env(env).Options())
    card = card_of(load_env(env)) or Card("", "", ())
    (task,) = (one for one in world.tasks(episode.task.split) if one.id == episode.task.id)
    actions = [step.action for step in episode.steps]
    possible = [world.reset(task).admissible]
    possible += [world.step(action).admissible for action in actions[:-1]]

    def decide(batches: Sequence[str], options: PolicyOptions, model: Follower) -> PromptedReasoner:
        offline = OfflineReasoner(embedder)
        known = Knowledge(embedder, offline, None)
        reasoner = known.ask(model, card, options.prompted())
        policy, led, planned = Policy(memory, reasoner, options), False, tuple[str, ...]()
        for at, (past, observation, _) in enumerate(episode.states()):
            model.at = at
            listed = None if options.wording != "ours" else possible[at]
            known = task.goal, History(past=past), observation, listed
            now = State(*known, led=led, plan=planned, steps_left=50 - at)
            last = policy.decide(now, batches or policy.batches(task.goal))
            led, planned = bool(last.reason), last.plan
        return reasoner

    ways: dict[str, Follower] = {}
    for way, options in (
        ("ldm", PolicyOptions()),
        ("ldm, asked where unsure", PolicyOptions(consult="unsure")),
    ):
        ways[way] = Follower(actions)
        decide((), options, ways[way])
    ways["preset ldm2"] = paper = Follower(actions)
    batches = memory.batches_for(task.goal, 0)
    for batch in batches:
        reasoner = decide([batch], PolicyOptions(**PAPER), paper)
    done = tuple((step.action, step.observation) for step in episode.steps)
    process = Process(task.goal, episode.opening, done, (1.0,) * len(done))
    reasoner.choose([process] * len(batches))
    for way, listed in (("react", False), ("react, shown actions", True)):
        ways[way] = Follower(actions)
        agent = ReactAgent(ReactAgent.Options(admissible=listed), Resources(llm=ways[way]))
        run_episode(world, agent, task)
    world.close()
    return ways


if __name__ == "__main__":
    main()

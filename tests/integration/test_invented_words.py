"""The offline reasoner knows no word of any environment.

Every object, receptacle and verb is renamed to an invented word, in the episodes and in the games
alike; an agent that works by analogy does about as well as before.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.episode import run_episode
from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.types import Task, TimeStep, Trajectory
from ldm.worlds.alfworld import ALFWorld
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords
from tools.alfworld.room_types import PLACES, ROOMS

VERBS = (
    *("go", "take", "move", "put", "open", "close", "clean", "heat", "cool", "use", "examine"),
    *("look", "inventory", "help", "slice", "arrive", "pick", "turn", "find"),
)
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ai", "or")]


def invented() -> dict[str, str]:
    """Each word of the world's vocabulary → a word that no language has, the same every time."""
    rng = random.Random(2023)
    places = {name for room in ROOMS for name in room.places}
    words = sorted({name.lower() for name in {*PLACES, *places}} | {*VERBS})
    invented: list[str] = []
    while len(invented) < len(words):
        word = "".join(rng.choices(SYLLABLES, k=3))
        if word not in invented:
            invented.append(word)
    return dict(zip(words, invented, strict=True))


@dataclass(frozen=True)
class Language:
    """Says a text in other words, and back."""

    forth: Mapping[str, str]

    def say(self, text: str) -> str:
        """`text` in invented words."""
        return _swapped(text, self.forth)

    def understand(self, text: str) -> str:
        """What an invented text means."""
        return _swapped(text, {invented: word for word, invented in self.forth.items()})

    def task(self, task: Task) -> Task:
        return replace(task, goal=self.say(task.goal))

    def episode(self, trajectory: Trajectory) -> Trajectory:
        steps = tuple(
            replace(s, action=self.say(s.action), observation=self.say(s.observation))
            for s in trajectory.steps
        )
        task, opening = self.task(trajectory.task), self.say(trajectory.opening)
        return replace(trajectory, task=task, opening=opening, steps=steps)


def _swapped(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"[a-z]+", lambda match: words.get(match.group(), match.group()), text)


class Foreign(ALFWorld):
    """ALFWorld as people tell of it who speak another language."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self._language = language

    def tasks(self, split: str) -> Sequence[Task]:
        return [self._language.task(task) for task in super().tasks(split)]

    def _start(self, task: Task) -> TimeStep:
        return self._translated(super()._start(task))

    def _act(self, action: str) -> TimeStep:
        return self._translated(super()._act(self._language.understand(action)))

    def _translated(self, now: TimeStep) -> TimeStep:
        say = self._language.say
        admissible = tuple(sorted(map(say, now.admissible or ())))
        return replace(now, observation=say(now.observation), admissible=admissible)


def success(place: Path, language: Language, tasks: int) -> float:
    """The share of test games that an agent with a sixth of the shipped episodes solves."""
    shipped = records.read(CHECKOUT / "data/trajectories/alfworld/demo_train.jsonl", Trajectory)
    episodes = [language.episode(one) for one in shipped[::6]]
    build(str(place), episodes, BagOfWords(), OfflineReasoner)
    memory = Memory.open(str(place), "alfworld", embedder=BagOfWords())
    agent = LdmAgent(LdmOptions(), Resources(memory, OfflineReasoner(BagOfWords()), seed=0))
    env = Foreign(language)
    played = [run_episode(env, agent, task)[0] for task in env.tasks("demo_test")[:tasks]]
    assert not [result.error for result in played if result.error]
    return sum(result.success for result in played) / len(played)


@pytest.fixture(scope="module")
def language() -> Language:
    return Language(invented())


def test_nothing_of_the_vocabulary_is_left(language: Language) -> None:
    env = Foreign(language)
    task = env.tasks("demo_test")[0]
    now = env.reset(task)
    visible_text = " ".join((now.observation, task.goal, *(now.admissible or ())))
    assert not set(re.findall(r"[a-z]+", visible_text)) & set(language.forth)
    assert language.understand(language.say("go to desk 1")) == "go to desk 1"


@pytest.mark.slow
def test_success_does_not_hang_on_words(tmp_path: Path, language: Language) -> None:
    plain = success(tmp_path / "plain", Language({}), 24)
    foreign = success(tmp_path / "foreign", language, 24)
    assert plain > 0.5
    assert foreign >= plain - 0.10

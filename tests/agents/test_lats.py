"""LATS: its tree, step by step; how it moves in an environment; what it tells the model."""

import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.lats import NOTE, LatsAgent, LatsOptions, Node, as_data, best, score_in, select
from ldm.episode import Environment, EnvironmentBase, run_episode
from ldm.llm import Message, Sampling
from ldm.reporting import noted
from ldm.testing import Onlooker
from ldm.types import Card, EpisodeResult, Task, TimeStep, Trajectory, stable_seed
from tests.agents.loop_contract import played
from tests.agents.scripted import Scripted, always
from tests.toy import EchoEnv

LESSON = "The way through {} was wrong."


@dataclass
class Fork(EnvironmentBase):
    """A way that forks at every step. A state is the moves that lead to it, such as "ab".

    rewards: of the states where a way ends. ends: how many moves a way has at most.
    """

    rewards: Mapping[str, float]
    ends: int = 3
    card: Card = field(
        default=Card("fork", "A way forks. One end is right.", ("go MOVE: take that way",))
    )
    at: str = ""

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task("test/fork", "fork", "test", "find the right end", "way")]

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": "fork"}

    def reset(self, task: Task) -> TimeStep:
        self.at = ""
        return TimeStep("You stand at the first fork.")

    def step(self, action: str) -> TimeStep:
        move = action.removeprefix("go ")
        if len(move) != 1:
            return TimeStep("There is no such way.", valid=False)
        self.at += move
        done = self.at in self.rewards or len(self.at) == self.ends
        reward = self.rewards.get(self.at, 0.0)
        return TimeStep(f"You are at {self.at}.", reward=reward, done=done)

    def fork(self) -> Environment:
        return replace(self)

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Guide:
    """The model of a fork: what it samples in a state, one after the other, and how it rates them.

    log: all that it was asked for, in order: "ab?" for a sample in ab, "ab!" for its score, "ab:"
    for a lesson from the way to ab.
    """

    samples: Mapping[str, Sequence[str]]
    scores: Mapping[str, float]
    log: list[str] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)

    def __call__(self, messages: Sequence[Message], sampling: Sampling) -> str:
        system, question = messages[0].content, messages[-1].content
        transcript = re.split(r"<(?:so-far|attempt)>", question)[-1]
        state = "".join(re.findall(r"^Act: go (\w)$", transcript, re.MULTILINE))
        if "You look back" in system:
            self.log.append(f"{state}:")
            return LESSON.format(state)
        if "You judge" in system:
            self.log.append(f"{state}!")
            return f"Think: hm.\nScore: {10 * self.scores.get(state, 0):g}"
        self.log.append(f"{state}?")
        moves = self.samples.get(state, self.samples[""])
        move = moves[self.drawn[state] % len(moves)]
        self.drawn[state] += 1
        return f"Think: {state} goes on.\nAct: go {move}"


def play(
    env: Any, model: Any, task: Task | None = None, **options: Any
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    llm = model if isinstance(model, Scripted) else Scripted(model)
    agent = LatsAgent(LatsOptions(**options), Resources(llm=llm))
    return played(agent, env, task or env.tasks("test")[0])


def nodes(result: EpisodeResult) -> dict[str, dict[str, Any]]:
    """The nodes of the recorded tree by their states."""
    data = noted(result, NOTE)
    assert data is not None
    states: list[str] = []
    for node in data["tree"]:
        above = "" if node["parent"] is None else states[node["parent"]]
        states.append(above + node["action"].removeprefix("go "))
    return dict(zip(states, data["tree"], strict=True))


class TestATraceByHand:
    """Three simulations on a fork with three moves, as §4.2 of the paper has them.

    Of three samples in every state two say a and one says b, so SC is 2/3 and 1/3.
    """

    SCORES: Mapping[str, float] = {
        "a": 0.8, "b": 0.6, "aa": 0.4, "ab": 0.9, "aba": 0.2, "abb": 0.8,
        "ba": 0.1, "bb": 0.7, "bba": 0.5, "bbb": 0.3,
    }  # fmt: skip
    REWARDS: Mapping[str, float] = {"bba": 0.4, "bab": 1.0}

    #: What the model is asked for: in the first simulation it goes to a (0.73 against 0.47), ab
    #: (0.62 against 0.53) and abb (0.57 against 0.43), in the second to b, by its UCT (1.30 against
    #: 0.96); no score is asked for where the search is over.
    LOG = (
        *["?"] * 3, "a!", "b!",
        *["a?"] * 3, "aa!", "ab!",
        *["ab?"] * 3, "aba!", "abb!",
        "abb:",
        *["b?"] * 3, "ba!", "bb!",
        *["bb?"] * 3, "bba!", "bbb!",
        "bba:", *["ba?"] * 3,
    )  # fmt: skip

    @pytest.fixture
    def guide(self) -> Guide:
        return Guide({"": "aab"}, self.SCORES)

    def test_a_success_ends_the_search_where_it_is_found(self, guide: Guide) -> None:
        """b again (1.17 against 1.11); bb is exhausted, so ba, and of its ends bab is right."""
        result, trials = play(Fork(self.REWARDS), guide, width=3, simulations=9)
        assert guide.log == [*self.LOG]
        tree = nodes(result)
        assert [tree[state]["visits"] for state in ("", "a", "b", "ba", "bab")] == [4, 2, 3, 2, 2]
        assert tree["ba"]["value"] == pytest.approx((0.05 + 1 / 3 + 1) / 2, abs=1e-4)
        assert tree["b"]["value"] == pytest.approx((0.3 + 1 / 6 + 0.4 + 1) / 3, abs=1e-4)
        assert noted(result, NOTE)["simulations"] == 3  # type: ignore[index]
        assert (result.success, result.submitted) == (True, tree["bab"]["trial"])
        assert [s.action for s in trials[result.submitted].steps] == ["go b", "go a", "go b"]

    def test_each_failure_s_lesson_joins_the_prompts_for_steps_and_for_scores(
        self, guide: Guide
    ) -> None:
        llm = Scripted(guide)
        result, _ = play(Fork(self.REWARDS), llm, width=3, simulations=9)
        prompts = dict(zip(guide.log, llm.prompts, strict=True))
        assert "failed" not in prompts["a?"] + prompts["abb!"]
        for later in ("b?", "bb!"):
            assert prompts[later].count("Lesson: ") == 1
        assert prompts["ba?"].count("Lesson: ") == 2
        assert (
            "Attempt 1, score 0.00 of 1:\n"
            "- go a: You are at a.\n- go b: You are at ab.\n- go b: You are at abb.\n"
            "Lesson: The way through abb was wrong.\n"
            "Attempt 2, score 0.40 of 1:\n- go b: You are at b.\n"
        ) in prompts["ba?"]
        assert "its score is 0.40 of 1" in prompts["bba:"]
        reflections = [note.data for note in result.notes if note.kind == "reflection"]
        tree = nodes(result)
        assert reflections == [
            {"text": LESSON.format(state), "of": tree[state]["trial"]} for state in ("abb", "bba")
        ]

    def test_only_the_latest_lessons_are_shown(self, guide: Guide) -> None:
        llm = Scripted(guide)
        play(Fork(self.REWARDS), llm, width=3, simulations=9, lessons=1)
        assert llm.prompts[-1].count("Lesson: ") == 1
        assert "through bba" in llm.prompts[-1]
        llm = Scripted(Guide({"": "aab"}, self.SCORES))
        play(Fork(self.REWARDS), llm, width=3, simulations=9, lessons=0)
        assert "Lesson: " not in llm.prompts[-1]

    def test_where_there_is_no_room_the_lessons_stay_without_the_steps(self, guide: Guide) -> None:
        llm = Scripted(guide)
        play(Fork(self.REWARDS), llm, width=3, simulations=9, observation=400)
        room = max(sum(len(m.content) for m in messages) for messages, _ in llm.requests)
        llm = Scripted(Guide({"": "aab"}, self.SCORES), room=room - 100)
        play(Fork(self.REWARDS), llm, width=3, simulations=9, observation=400)
        assert llm.prompts[-1].count("Lesson: ") == 2
        assert "\n- go " not in llm.prompts[-1]
        assert any("\n- go " in prompt for prompt in llm.prompts)  # there is room for one attempt

    def test_samples_are_drawn_each_anew_and_scores_are_greedy(self, guide: Guide) -> None:
        llm = Scripted(guide)
        play(Fork(self.REWARDS), llm, width=3, simulations=2)
        draws = [s for (_, s), what in zip(llm.requests, guide.log, strict=True) if "?" in what]
        rest = [s for (_, s), what in zip(llm.requests, guide.log, strict=True) if "?" not in what]
        assert {one.temperature for one in draws} == {1.0}
        assert len({one.sample for one in draws}) == len(draws)
        assert {one.temperature for one in rest} == {0.0}

    def test_the_record_shows_the_tree(self, guide: Guide) -> None:
        result, _ = play(Fork(self.REWARDS), guide, width=3, simulations=9)
        tree = LatsAgent.reporting.tree(result)
        assert tree is not None
        assert tree.headline == "3 simulations, 12 nodes, depth 3"
        lines = list(tree.lines())
        assert lines[0] == "-  0 the task  [value 0.35, visits 4]"
        assert "  | -  1 go a  [value 0.37, visits 2]" in lines
        assert any("3 go a  [value 0.49, visits 2, reward 0.40, done]" in line for line in lines)
        assert any(line.endswith("  thought: bb goes on.") for line in lines)
        measures = {one.name: one.of(result) for one in LatsAgent.reporting.measures}
        assert measures["simulations"] == 3
        assert measures["nodes"] == 12


@dataclass
class Reference:
    """The same search, written from the paper's formulas: all returns are kept, and averaged.

    first: V at the evaluation. returns: what came of each trajectory through a state.
    """

    rewards: Mapping[str, float]
    shares: Mapping[str, Mapping[str, float]]
    scores: Mapping[str, float]
    weight: float
    exploration: float
    first: dict[str, float] = field(default_factory=dict)
    returns: dict[str, list[float]] = field(default_factory=lambda: {"": []})

    def value(self, state: str) -> float:
        return math.fsum([self.first.get(state, 0.0), *self.returns[state]]) / self.count(state)

    def count(self, state: str) -> int:
        return 1 + len(self.returns[state])

    def open(self, state: str) -> bool:
        if state in self.rewards:
            return False
        children = [state + move for move in self.shares[state] if state + move in self.returns]
        return not children or any(self.open(child) for child in children)

    def simulate(self) -> str | None:
        """The end of the next trajectory; None where there is none."""
        if not self.open(""):
            return None
        state = ""
        while any(state + move in self.returns for move in self.shares[state]):
            bound = {
                state + move: self.value(state + move)
                + self.exploration * (math.log(self.count(state)) / self.count(state + move)) ** 0.5
                for move in self.shares[state]
                if self.open(state + move)
            }
            state = max(bound, key=lambda child: bound[child])
        while state not in self.rewards:
            for child in (state + move for move in self.shares[state]):
                self.returns[child] = []
                if self.rewards.get(child) == 1:
                    return self.end(child)
            for move, share in self.shares[state].items():
                score = self.scores[state + move]
                self.first[state + move] = self.weight * score + (1 - self.weight) * share
            state = max((state + move for move in self.shares[state]), key=self.value)
        return self.end(state)

    def end(self, state: str) -> str:
        for length in range(len(state) + 1):
            self.returns[state[:length]].append(self.rewards[state])
        return state


@pytest.mark.parametrize("seed", range(200))
def test_random_trees_are_searched_as_the_formulas_say(seed: int) -> None:
    """Every end in its order, every value and every count, and which trajectory stands."""
    rng = random.Random(stable_seed("lats", seed))
    width, depth = rng.randint(1, 4), rng.randint(2, 4)
    samples: dict[str, str] = {}
    rewards: dict[str, float] = {}
    scores: dict[str, float] = {}
    states = [""]
    for state in states:
        samples[state] = "".join(rng.choices("abcd", k=width))
        for move in sorted(set(samples[state])):
            child = state + move
            scores[child] = rng.randint(1, 10) / 10
            if len(child) == depth or rng.random() < 0.15:
                rewards[child] = rng.choice([0.0, 0.0, 0.0, 0.25, 0.6, 0.9, 1.0])
            else:
                states.append(child)
    weight, exploration = rng.choice([0.0, 0.5, 0.8, 1.0]), rng.choice([0.0, 0.5, 1.0, 1.4])
    shares = {
        state: {move: count / width for move, count in Counter(moves).items()}
        for state, moves in samples.items()
    }
    reference = Reference(rewards, shares, scores, weight, exploration)
    ends: list[str] = []
    while len(ends) < 12 and not (ends and rewards[ends[-1]] == 1):
        end = reference.simulate()
        if end is None:
            break
        ends.append(end)

    guide = Guide(samples, scores)
    result, trials = play(
        Fork(rewards, ends=depth),
        guide,
        width=width,
        budget=depth,
        simulations=12,
        lm_weight=weight,
        exploration=exploration,
    )

    reflected = [what.removesuffix(":") for what in guide.log if what.endswith(":")]
    assert reflected == [end for end in ends[:11] if rewards[end] < 1]
    assert noted(result, NOTE)["simulations"] == len(ends)  # type: ignore[index]
    tree = nodes(result)
    assert set(tree) == set(reference.returns)
    for state, node in tree.items():
        assert node["visits"] == reference.count(state), state
        assert node["value"] == pytest.approx(reference.value(state), abs=1e-3), state
    tried = [state for state in tree if state in rewards]
    assert result.score == max(rewards[state] for state in tried)
    assert trials[result.submitted].score == result.score


def test_of_equal_ends_the_earliest_stands() -> None:
    root = Node()
    root.children = [
        Node(parent=root, end="done", reward=reward, trial=trial)
        for reward, trial in ((0.2, 1), (0.5, 4), (0.5, 3), (0.5, 6))
    ]
    assert best(root) is root.children[2]
    assert best(Node()) is None


def test_a_tree_may_be_deeper_than_json_may_be_nested(tmp_path: Path) -> None:
    result, _ = play(Fork({}, ends=260), Guide({"": "a"}, {}), budget=300, width=1, simulations=1)
    records.write(tmp_path / "episodes.jsonl", [result])
    assert records.read(tmp_path / "episodes.jsonl", EpisodeResult) == [result]
    tree = LatsAgent.reporting.tree(result)
    assert tree is not None
    assert tree.columns["depth"] == "260"
    root = deep = Node()
    for _ in range(3000):
        deep.children = [Node(parent=deep)]
        deep = deep.children[0]
    assert len(deep.path) == 3000
    assert select(root, 1.0) is deep
    assert len(as_data(root)) == 3001


class TestMovingInTheEnvironment:
    def test_the_steps_to_a_state_are_repeated_and_counted(self) -> None:
        """Of two children the second needs the way again, and so does the better one, if first."""
        guide = Guide({"": "ab"}, {"b": 0.9, "bb": 0.9, "bbb": 0.9})
        onlooker = Onlooker(Fork({}))
        result, trials = play(onlooker, guide, width=2, simulations=1)
        ways = ["".join(s.action[-1] for s in trial.steps) for trial in trials]
        assert ways == ["a", "ba", "bba", "bbb"]  # where the walk stands, it goes on
        assert result.env_steps == len(onlooker.actions) == 9
        assert noted(result, NOTE)["replayed"] == 3  # type: ignore[index]
        assert len(onlooker.resets) == result.trials == 4
        assert all(s.thought for trial in trials for s in trial.steps)

    @pytest.mark.parametrize(
        ("moment", "told"),
        [
            ("opening", "at the opening: 'opening 2' instead of 'opening 1'"),
            ("step", "brought something else at step 1 (go b): 'step 2' instead of 'step 1'."),
            ("end", "at step 1 (go b): 'it ended (done)' instead of 'the task goes on'"),
        ],
    )
    def test_another_answer_than_before_is_an_error_that_names_the_step(
        self, moment: str, told: str
    ) -> None:
        class Unsteady(Fork):
            times = 0

            def changed(self, now: TimeStep) -> TimeStep:
                self.times += 1
                if moment == "end":
                    return replace(now, done=self.times > 1)
                return replace(now, observation=f"{moment} {self.times}")

            def reset(self, task: Task) -> TimeStep:
                now = super().reset(task)
                return self.changed(now) if moment == "opening" else now

            def step(self, action: str) -> TimeStep:
                now = super().step(action)
                return self.changed(now) if moment != "opening" and self.at == "b" else now

        env = Unsteady({})
        llm = Scripted(Guide({"": "ab"}, {"b": 0.9}))
        agent = LatsAgent(LatsOptions(width=2), Resources(llm=llm))
        result, trials = run_episode(env, agent, env.tasks("test")[0])
        assert result.end == "error"
        assert "ReplayDivergence" in result.error
        assert told in result.error
        assert any(note.kind == NOTE for note in result.notes)
        assert len(trials) == result.trials

    def test_the_depth_is_the_budget_of_a_trial(self) -> None:
        result, trials = play(Fork({}, ends=9), Guide({"": "a"}, {}), budget=4, width=1)
        assert [len(trial.steps) for trial in trials] == [4]
        assert nodes(result)["aaaa"]["end"] == "budget"

    def test_what_was_earned_on_the_way_counts_where_a_trajectory_ends(self) -> None:
        env = EchoEnv()

        def half(messages: Sequence[Message], sampling: Sampling) -> str:
            if "You judge" in messages[0].content:
                return "Score: 5"
            trace = messages[-1].content.partition("<so-far>")[2]
            word = trace.rpartition("The word is ")[2].partition(".")[0]
            return f"Act: say {word[::-1]}" if "Yes." not in trace else "Act: stop"

        result, _ = play(env, half, width=1, simulations=1)
        assert result.score == 0.5

    def test_a_thought_alone_is_a_step_that_changes_nothing(self) -> None:
        replies = iter(["Think: left?", "Think: or right?", "Score: 9", "Score: 1"])
        fork = Guide({"": "a"}, {})

        def pondering(messages: Sequence[Message], sampling: Sampling) -> str:
            return next(replies, None) or fork(messages, sampling)

        result, trials = play(Fork({"aa": 1.0}), pondering, width=2)
        assert [s.thought for s in trials[-1].steps] == ["left?", "goes on.", "a goes on."]
        assert [s.action for s in trials[-1].steps] == ["", "go a", "go a"]
        assert result.success


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Think: good.\nScore: 7", 0.7),
        ("score: **8**/10", 0.8),
        ("The score is 3. Then again, Score: 4.5", 0.45),
        ("I give it 6 out of 10.", 0.6),
        ("9/10", 0.9),
        ("Score: 99", 1.0),
        ("Score: none", None),
        ("It looks well.", None),
        ("", None),
    ],
)
def test_what_is_read_out_of_a_rating(reply: str, score: float | None) -> None:
    assert score_in(reply) == score


def test_what_gives_no_score_counts_as_nothing_and_is_counted() -> None:
    result, _ = play(Fork({}), always("Act: go a"), width=1, simulations=1)
    assert noted(result, NOTE)["unrated"] == 3  # type: ignore[index]
    assert nodes(result)["a"]["rating"] == 0.0

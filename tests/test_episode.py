"""The episode stands between agent and environment: it records, counts, limits and hides."""

from collections.abc import Callable

import pytest

from ldm.episode import NO_ACTION, Episode, EpisodeOver, run_episode
from ldm.errors import LdmError
from ldm.types import EpisodeResult, Trajectory, Usage
from tests.toy import Doing, EchoEnv, ToyEnv, ToyOptions, expert


def play(
    script: Callable[[Episode], None],
    *,
    env: ToyEnv | EchoEnv | None = None,
    steps: int = 10,
    sees_reward: bool = False,
) -> tuple[EpisodeResult, tuple[Trajectory, ...]]:
    world = env or ToyEnv()
    task = world.tasks("test")[0]
    return run_episode(world, Doing(script, steps, sees_reward), task)


def solving(episode: Episode) -> None:
    task = next(t for t in ToyEnv().tasks("test") if t.id == episode.task_id)
    with episode.trial():
        for action in expert(task):
            episode.act(action)


def test_a_solved_task_is_a_success_and_everything_is_recorded() -> None:
    result, (trajectory,) = play(solving)
    task = ToyEnv().tasks("test")[0]
    assert (result.end, result.success, result.score) == ("done", True, 1.0)
    assert tuple(step.action for step in trajectory.steps) == expert(task)
    assert result.env_steps == len(expert(task))
    assert (result.invalid, result.trials, result.submitted) == (0, 1, 0)
    assert trajectory.success
    assert trajectory.origin == "agent"


def test_the_budget_counts_thoughts_and_actions_and_ends_the_trial() -> None:
    reached: list[int] = []

    def script(episode: Episode) -> None:
        with episode.trial():
            while True:
                assert episode.steps_left > 0
                episode.think("hm")
                episode.act("go to sink" if len(reached) % 2 else "go to shelf 1")
                reached.append(episode.steps_left)

    result, (trajectory,) = play(script, steps=5)
    assert (result.end, len(trajectory.steps), result.env_steps) == ("budget", 5, 2)


def test_the_effective_past_leaves_out_what_was_refused() -> None:
    seen: list[tuple[object, str]] = []

    def script(episode: Episode) -> None:
        with episode.trial() as now:
            first = episode.act("go to sink")
            episode.act("fly away")
            seen.extend(
                [episode.effective, (((now.observation, "go to sink"),), first.observation)]
            )

    play(script)
    assert seen[0] == seen[1]


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(LdmError, match="at least 1 step, not 0"):
        play(solving, steps=0)


def test_an_agent_that_catches_the_end_is_unwound_again() -> None:
    def stubborn(episode: Episode) -> None:
        with episode.trial():
            while True:
                try:
                    episode.act("go to sink")
                except EpisodeOver:
                    episode.think("I go on all the same")

    result, (trajectory,) = play(stubborn, steps=3)
    assert result.end == "budget"
    assert len(trajectory.steps) == 3


def test_after_the_task_has_ended_nothing_more_happens() -> None:
    def greedy(episode: Episode) -> None:
        with episode.trial():
            try:
                for action in expert(ToyEnv().tasks("test")[0]):
                    episode.act(action)
            except EpisodeOver:
                episode.act("go to sink")

    result, (trajectory,) = play(greedy)
    assert result.end == "done"
    assert trajectory.steps[-1].action.startswith("put")


@pytest.mark.parametrize(
    ("trials", "error"),
    [("", ""), ("begun", ""), ("nested", "already running"), ("outside", "running trial"),
     ("submit -1", "IndexError"), ("submit 1", "IndexError")],
)  # fmt: skip
def test_an_agent_that_leaves_early_gave_up_and_one_that_breaks_the_rules_erred(
    trials: str, error: str
) -> None:
    def script(episode: Episode) -> None:
        if trials == "outside":
            episode.act("go to sink")
        elif trials:
            with episode.trial():
                episode.act("go to sink")
                if trials == "nested":
                    episode.trial().__enter__()
        if trials.startswith("submit"):
            episode.submit(int(trials.split()[1]))

    result, trajectories = play(script)
    assert (result.end, result.success) == ("error" if error else "gave_up", False)
    assert error in result.error
    assert len(trajectories) == result.trials == (trials not in ("", "outside"))


def test_each_trial_is_a_fresh_start_with_a_fresh_budget() -> None:
    def twice(episode: Episode) -> None:
        for _ in range(2):
            with episode.trial() as now:
                assert now.observation.startswith("You are in a shed")
                assert episode.past == ()
                assert episode.steps_left == 3
                while True:
                    episode.act("go to sink")

    result, trajectories = play(twice, steps=3)
    assert result.trials == len(trajectories) == 2
    assert result.env_steps == 6
    assert result.invalid == 4
    assert trajectories[0] == trajectories[1]


def test_the_last_trial_stands_unless_another_is_submitted() -> None:
    def first_of_two(episode: Episode) -> None:
        solving(episode)
        with episode.trial():
            pass
        episode.submit(0)

    def last_of_two(episode: Episode) -> None:
        solving(episode)
        with episode.trial():
            pass

    first, last = play(first_of_two)[0], play(last_of_two)[0]
    assert (first.success, first.submitted) == (True, 0)
    assert (last.success, last.end) == (False, "gave_up")


def test_the_past_pairs_what_was_seen_with_what_was_done() -> None:
    pasts = []

    def script(episode: Episode) -> None:
        assert not episode.past
        with episode.trial() as now:
            opening = now.observation
            episode.think("first the sink")
            observation = episode.act("go to sink").observation
            episode.act("go to shelf 1")
            pasts.append(episode.past == ((opening, "go to sink"), (observation, "go to shelf 1")))

    play(script)
    assert pasts == [True]


@pytest.mark.parametrize(
    ("action", "recorded"), [("fly", "fly"), ("", NO_ACTION), ("  \n", NO_ACTION)]
)
def test_an_invalid_action_is_counted_and_changes_nothing(action: str, recorded: str) -> None:
    def script(episode: Episode) -> None:
        with episode.trial() as before:
            after = episode.act(action)
            assert not after.valid
            assert after.admissible == before.admissible

    result, (trajectory,) = play(script)
    assert (result.invalid, result.env_steps) == (1, 1)
    assert (trajectory.steps[0].action, trajectory.steps[0].valid) == (recorded, False)


@pytest.mark.parametrize("sees_reward", [True, False])
def test_rewards_are_seen_only_by_agents_that_declare_it(sees_reward: bool) -> None:
    rewards: list[float] = []

    def script(episode: Episode) -> None:
        with episode.trial() as now:
            word = now.observation.removeprefix("The word is ").removesuffix(".")
            rewards.append(episode.act(f"say {word[::-1]}").reward)
            rewards.append(episode.now.reward)
        value = episode.trajectory(0)
        rewards.extend([value.score, value.steps[0].reward])
        assert not value.success

    result, (trajectory,) = play(script, env=EchoEnv(), sees_reward=sees_reward)
    assert rewards == ([0.5] * 4 if sees_reward else [0.0] * 4)
    assert result.score == trajectory.score == 0.5
    assert not result.success


class TestErrors:
    def test_a_failing_agent_is_data(self) -> None:
        def broken(episode: Episode) -> None:
            solving(episode)
            raise ZeroDivisionError("oh")

        result, trajectories = play(broken)
        assert result.end == "error"
        assert not result.success
        assert "ZeroDivisionError: oh" in result.error
        assert len(trajectories) == 1

    def test_a_failing_environment_is_data_and_what_was_done_is_kept(self) -> None:
        env = ToyEnv(ToyOptions(broken="test/fetch-0"))
        result, (trajectory,) = play(solving, env=env)
        assert result.end == "error"
        assert "collapsed" in result.error
        assert trajectory.steps == ()

    def test_the_user_can_still_stop_the_program(self) -> None:
        def stopped(episode: Episode) -> None:
            with episode.trial():
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            play(stopped)


def test_notes_and_costs_go_into_the_record() -> None:
    def script(episode: Episode) -> None:
        with episode.trial():
            episode.note("plan", steps=["a", "b"])
            episode.spent(Usage(calls=1, prompt_tokens=7))
            episode.spent(Usage(calls=1))

    result, _ = play(script)
    (note,) = result.notes
    assert (note.kind, note.trial, note.data) == ("plan", 0, {"steps": ["a", "b"]})
    assert result.usage == Usage(calls=2, prompt_tokens=7)


def test_recalls_are_recorded_with_the_step_they_prompted() -> None:
    def script(episode: Episode) -> None:
        with episode.trial():
            episode.act("go to sink", thought="wash first", recalls=[("id", 0.75)])

    step = play(script)[1][0].steps[0]
    assert step.recalls == (("id", 0.75),)
    assert step.thought == "wash first"

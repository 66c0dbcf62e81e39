"""Episodes as lines: bounded, and each step with who decided it."""

from dataclasses import replace

from ldm.run.reading import Bounds, RecordedEpisode, episode_lines
from ldm.types import EpisodeResult, Note, Step, Task, Trajectory, Usage

TASK = Task("test/1", "toy", "test", "put the fig in the basket", "fetch")
STEPS = (
    Step("go to sink", "You are at the sink.", recalls=(("a", 0.4), ("b", 0.9)), followed=(1,)),
    Step("dance", "Nothing happens.", thought="Why not?", valid=False),
    Step("", "", thought="That was silly."),
    Step("put fig in basket", "Done. " + "x" * 1000, reward=1.0),
)
NOTES = (
    Note("votes", 0, {"steps": [[["go to sink", 0.75], ["look", 0.25]], [], [["look", 0.5]]]}),
    Note("consulted", 0, {"steps": ["", "loop", "always"]}),
    Note("calls", 0, {"calls": [[1, "k1"], [1, "k2"], [3, "k3"]]}),
)


def episode(trials: int = 1, error: str = "") -> RecordedEpisode:
    trial = Trajectory(TASK, "You are in a shed.", STEPS, 1.0, True, "agent")
    end = "error" if error else "done"
    result = EpisodeResult(
        *(TASK, "ldm", trials, trials - 1, end, 1.0, not error, 3, 1, Usage(3), 0.5),  # type: ignore[arg-type]
        error=error,
        notes=NOTES,
    )
    return RecordedEpisode(result, (trial,) * trials)


def lines(
    one: RecordedEpisode, bounds: Bounds | None = None, trial: int | None = None
) -> list[str]:
    return list(episode_lines(one, {"a": None, "b": None}, bounds or Bounds(), trial))


def test_each_step_says_what_was_done_and_who_decided_it() -> None:
    printed = lines(episode())
    assert printed[:2] == ["test/1", "goal: put the fig in the basket"]
    solved = "solved: score 1.00, 3 steps, 1 invalid, ended by done, 3 model calls"
    assert printed[2:4] == [solved, "start: You are in a shed."]
    assert printed[4:] == [
        "  1 go to sink",
        "    the vote decided: go to sink 75.0 %, look 25.0 %",
        "    recalled 2, 1 followed:",
        "    * 0.90 b (no longer in the memory)",
        "      0.40 a (no longer in the memory)",
        "    → You are at the sink.",
        "  2 dance  (invalid)",
        "    thought: Why not?",
        "    a model decided (about to repeat itself); recalls vote for: nothing",
        "    a model was asked: 2 calls",
        "    → Nothing happens.",
        "  3 thought: That was silly.",
        "  4 put fig in basket  (reward +1.00)",
        "    a model decided; recalls vote for: look 50.0 %",
        "    a model was asked: 1 call",
        f"    → Done. {'x' * 294}…",
    ]


def test_steps_and_recalls_are_bounded() -> None:
    printed = lines(episode(), Bounds(text=10, recalls=1, steps=1))
    assert printed[-1] == "3 more steps; `ldm report` shows all."
    assert sum("no longer" in line for line in printed) == 1
    assert "goal: put the fi…" in printed


def test_the_trial_that_counts_is_shown_unless_another_is_named() -> None:
    assert "trial 2 of 2" in lines(episode(2))
    first = lines(episode(2), trial=0)
    assert "trial 1 of 2" in first
    assert "    the vote decided: go to sink 75.0 %, look 25.0 %" in first


def test_notes_of_other_agents_under_the_same_names_are_passed_over() -> None:
    for data in ({"steps": 7}, {"steps": [3, "x", [["a"]], None]}, {}, {"calls": [[1], "k"]}):
        notes = tuple(Note(kind, 0, data) for kind in ("votes", "consulted", "calls"))
        one = RecordedEpisode(replace(episode().result, notes=notes), episode().trials)
        assert all(votes.shares == () for votes in one.votes(0))
        assert one.calls(0) == {}
        assert lines(one)

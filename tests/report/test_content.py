"""What a report holds, whoever shows it: packed, bounded, the same for the same runs."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.llm import Message
from ldm.llm.calls import Call, Request
from ldm.report import overview, write_report
from ldm.report.writing import SCRIPTS, STYLES, Chunks, text_of
from ldm.run.reading import read_run
from ldm.runs import Manifest, create
from ldm.types import Trajectory, Usage
from tests.report.conftest import CHUNK, Recorded, chunks
from tests.report.hostile import TEXTS, hostile_run


def entries(data: dict[str, Any], run: Path) -> list[dict[str, Any]]:
    """What is told of each episode of a run, in order."""
    (entry,) = [one for one in data["overview"]["runs"] if one["id"] == run.name]
    return [data[f"entries-{at[0]}"][at[1]] for at in (row["at"] for row in entry["entries"])]


class TestEpisodes:
    def test_every_step_of_every_trial_is_there(self, recorded: Recorded) -> None:
        trials = records.read(recorded.later / "trajectories.jsonl", Trajectory)
        for trial, entry in zip(trials, entries(recorded.data, recorded.later), strict=True):
            (trial_entry,) = entry["trials"]
            assert trial_entry["opening"] == trial.opening
            assert [
                (s["action"], s["seen"], s.get("invalid", False)) for s in trial_entry["steps"]
            ] == [(step.action, step.observation, not step.valid) for step in trial.steps]

    def test_recalled_tuples_are_numbers_of_texts(self, recorded: Recorded) -> None:
        trial = records.read(recorded.earlier / "trajectories.jsonl", Trajectory)[0]
        step = entries(recorded.data, recorded.earlier)[0]["trials"][0]["steps"][0]
        tuples = recorded.data["tuples-0"]
        numbers, similarities = step["recalls"][::2], step["recalls"][1::2]
        assert [tuples[n]["id"] for n in numbers] == [i for i, _ in trial.steps[0].recalls]
        assert similarities == [round(s * 1000) for _, s in trial.steps[0].recalls]
        assert {tuples[n]["origin"] for n in numbers} == {"expert"}
        assert step["votes"][0][0] == trial.steps[0].action

    def test_uses_count_the_steps_that_recalled_and_followed(self, recorded: Recorded) -> None:
        trials = records.read(recorded.earlier / "trajectories.jsonl", Trajectory)
        number, one = 0, recorded.data["tuples-0"][0]
        steps = [step for step in trials[0].steps if one["id"] in dict(step.recalls)]
        followed = [
            step for step in steps if one["id"] in [step.recalls[i][0] for i in step.followed or ()]
        ]
        assert recorded.data["uses"][number][:3] == [0, len(steps), len(followed)]

    def test_calls_stand_at_the_step_that_they_were_made_for(self, recorded: Recorded) -> None:
        calls = records.read(recorded.divided / "llm.jsonl", Call)
        by_key = {call.key: call for call in calls if call.role != "probe"}
        keys = [
            key
            for entry in entries(recorded.data, recorded.divided)
            for trial in entry["trials"]
            for step in [*trial["steps"], trial]
            for key in step.get("calls", [])
        ]
        assert set(keys) == set(by_key)

    def test_a_prompt_is_packed_as_what_differs_from_the_one_before(self) -> None:
        prompts = ["You are in a shed. > look", "You are in a shed. > look\nA shelf. > go", "Else"]
        calls = [
            Call(
                str(i),
                "llm",
                Request("m", (Message("user", text),)),
                "reply",
                "stop",
                Usage(1, 9, 0, 2),
            )
            for i, text in enumerate(prompts)
        ]
        packed = overview.call_data(calls)
        assert [one["messages"][0][1] for one in packed] == [0, len(prompts[0]), 0]
        assert packed[1]["messages"][0][2] == "\nA shelf. > go"


class TestRuns:
    def test_the_order_of_mention_is_kept_and_labels_differ(self, recorded: Recorded) -> None:
        runs = recorded.data["overview"]["runs"]
        assert [one["id"] for one in runs] == [run.name for run in recorded.all]
        labels = [one["label"] for one in runs]
        assert len(set(labels)) == 6
        assert labels[:2] == ["ldm generation=0", "ldm generation=1"]

    def test_a_curve_has_a_point_for_each_generation(self, recorded: Recorded) -> None:
        curve, iterations = recorded.data["overview"]["curves"]
        assert (curve["over"], iterations["over"]) == ("generation", "iteration")
        assert [point[1] for point in iterations["series"][0]["points"]] == [0, 1]
        (series,) = curve["series"]
        assert [point[0] for point in series["points"]] == [0, 1]
        for _, rate, low, high in series["points"]:
            assert 0 <= low <= rate <= high <= 1

    def test_runs_that_differ_by_more_are_on_no_common_line(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        def variant(name: str, **changes: Any) -> Path:
            run = read_run(recorded.later, tmp_path).run
            plan = {**run.manifest.spec, **changes}
            other = create(tmp_path, (name,), Manifest("eval", plan, {}))
            for file in ("episodes.jsonl", "trajectories.jsonl"):
                (other.directory / file).write_bytes((run.directory / file).read_bytes())
            return other.directory

        runs = [
            variant("five", agent={"name": "ldm", "k": 5}),
            variant("seven", agent={"name": "ldm", "k": 7}),
            variant("random", agent={"name": "ldm", "control": "random", "k": 9}),
            variant("elsewhere", agent={"name": "ldm", "k": 9}, memory="elsewhere"),
        ]
        (curve,) = chunks(write_report(runs, tmp_path / "r.html"))["overview"]["curves"]
        assert curve["over"] == "k"
        (series,) = curve["series"]
        assert [point[0] for point in series["points"]] == [5, 7]

    def test_a_refinement_shows_goals_with_their_trees(self, recorded: Recorded) -> None:
        entry = entries(recorded.data, recorded.refinement)
        assert len(entry) == 4
        for goal in entry:
            for tree in goal["trees"]:
                depths = [one["depth"] for one in tree["branches"]]
                assert all(b <= a + 1 for a, b in zip(depths, depths[1:], strict=False))
        keys = [b for goal in entry for t in goal["trees"] for b in t["branches"] if b.get("key")]
        assert keys
        assert all(one["chosen"] for one in keys)

    def test_an_unfinished_run_shows_what_it_has(self, recorded: Recorded, tmp_path: Path) -> None:
        run = read_run(recorded.control, tmp_path)
        from ldm.run.runner import Played

        fresh = create(tmp_path, ("half",), Manifest("eval", run.run.manifest.spec, {}))
        played = [
            Played(i, one.result, one.trials) for i, one in enumerate(run.episodes()) if i < 2
        ]
        records.write(fresh.parts / "0.jsonl", played)
        (entry,) = chunks(write_report([fresh.directory], tmp_path / "r.html"))["overview"]["runs"]
        assert (entry["finished"], len(entry["entries"])) == (False, 2)
        assert "is unfinished" in entry["remarks"][0]

    def test_a_run_of_before_votes_and_calls_were_recorded_is_shown(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        run = read_run(recorded.earlier, tmp_path)
        old = create(tmp_path, ("old",), Manifest("eval", run.run.manifest.spec, {}))
        episodes = run.episodes()
        records.write(
            old.directory / "trajectories.jsonl", (t for one in episodes for t in one.trials)
        )
        without = (replace(one.result, notes=()) for one in episodes)
        records.write(old.directory / "episodes.jsonl", without)
        entry = entries(chunks(write_report([old.directory], tmp_path / "r.html")), old.directory)
        steps = [step for one in entry for trial in one["trials"] for step in trial["steps"]]
        assert all("votes" not in step for step in steps)
        assert any("recalls" in step for step in steps)


class TestPage:
    def test_the_same_runs_give_the_same_bytes(self, recorded: Recorded, tmp_path: Path) -> None:
        again = write_report(recorded.all, tmp_path / "again.html", trust=True)
        assert again.read_bytes() == recorded.page.read_bytes()

    def test_no_text_of_a_record_stands_in_the_page_itself(self, tmp_path: Path) -> None:
        page = write_report([hostile_run(tmp_path)], tmp_path / "r.html").read_text("utf-8")
        shell = CHUNK.sub("", page)
        for text in TEXTS[:7]:
            assert text not in shell
        assert page.count("</script>") == len(CHUNK.findall(page)) + 1

    @pytest.mark.parametrize("agent", ["adapt", "cot", "deps", "lats", "ldm"])
    def test_notes_that_an_agent_cannot_read_leave_its_part_out(
        self, tmp_path: Path, agent: str
    ) -> None:
        run = hostile_run(tmp_path, agent)
        entry = entries(chunks(write_report([run], tmp_path / "r.html")), run)
        assert len(entry) == len(TEXTS) + 1
        assert all(one["trees"] == [] for one in entry)

    def test_only_its_own_script_and_style_may_act(self, recorded: Recorded) -> None:
        page = recorded.page.read_text("utf-8")
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
        policy = unescape(policy)
        assert policy.startswith("default-src 'none'; ")
        (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
        for name, text in (("script", script), ("style", style)):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{name}-src 'sha256-{digest}'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy

    def test_numbers_that_json_does_not_have_are_words(self) -> None:
        packed = Chunks()
        packed.put("notes", {"value": [float("nan"), -float("inf"), 1.5]})
        unpacked = json.loads(gzip.decompress(base64.b64decode(packed.packed["notes"])))
        assert unpacked == {"value": ["nan", "-inf", 1.5]}

    def test_our_scripts_make_no_markup_of_text(self) -> None:
        for name in SCRIPTS:
            if not name.startswith("vendor/"):
                text = text_of(name)
                for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
                    assert word not in text, name

    def test_what_is_vendored_is_what_was_published(self) -> None:
        """The files of uPlot 1.6.32; CONTRIBUTING.md says how to renew them."""
        known = {
            "vendor/uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            "vendor/uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        }
        for name in (*SCRIPTS, *STYLES):
            if name.startswith("vendor/"):
                assert hashlib.sha256(text_of(name).encode()).hexdigest() == known[name]
        assert "MIT License" in text_of("vendor/LICENSE")

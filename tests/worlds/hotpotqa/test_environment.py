"""The environment: its splits, what answers earn, and what a check of its data reports."""

import json
import random
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.types import stable_seed
from ldm.worlds.hotpotqa import HotpotQA, HotpotQAOptions, data
from ldm.worlds.hotpotqa.environment import LICENCE
from ldm.worlds.hotpotqa.library import MOST_PARTIAL
from tests.worlds.hotpotqa.test_articles import question


@pytest.fixture
def env() -> HotpotQA:
    return HotpotQA()


def answered(env: HotpotQA, answer: str) -> float:
    env.reset(env.tasks("demo_test")[0])
    step = env.step(f"finish[{answer}]")
    assert step.done
    assert step.observation == "Episode finished."
    return step.reward


def test_an_exact_match_earns_everything_and_shared_words_a_part(env: HotpotQA) -> None:
    task = env.tasks("demo_test")[0]
    gold = env._game(task).answer
    assert answered(env, gold) == 1
    assert answered(env, f" the {gold.upper()}!") == 1
    assert 0 < answered(env, f"{gold} river") < 1
    assert answered(env, "nonsense") == 0
    assert answered(env, "") == 0
    assert answered(HotpotQA(HotpotQAOptions(score="em")), f"{gold} river") == 0
    assert MOST_PARTIAL < 1


def test_after_the_answer_nothing_earns_anything(env: HotpotQA) -> None:
    answered(env, "nonsense")
    for action in ("finish[Nan]", "search[x]", "nonsense"):
        again = env.step(action)
        assert (again.observation, again.reward, again.done) == ("Episode finished.", 0, True)


def test_no_answer_title_or_level_reaches_an_agent(env: HotpotQA) -> None:
    for task in env.tasks("demo_test"):
        record = env._game(task)
        opening = env.reset(task).observation
        assert opening == f"Question: {task.goal}"
        if record.kind == "bridge":
            assert record.answer not in opening
        assert record.level not in (task.kind, task.split)


def test_the_solution_is_told_of_training_tasks_alone(env: HotpotQA) -> None:
    task = env.tasks("demo_train")[0]
    question = env._game(task)
    solution = env.solution(task)
    assert f'The answer is "{question.answer}".' in solution
    assert all(title in solution for title in question.titles)
    with pytest.raises(LdmError, match="it is not a training task"):
        env.solution(env.tasks("demo_test")[0])


def test_the_own_splits_share_no_article(env: HotpotQA) -> None:
    titles = [
        {title for _, one in env._listing(split).values() for title in one.titles}
        for split in ("demo_train", "demo_test")
    ]
    assert not titles[0] & titles[1]
    assert [len(env.tasks(split)) for split in ("demo_train", "demo_test")] == [120, 60]


def official_folder(place: Path) -> Path:
    """Two test questions; three training questions, of which one shares an article with them."""
    articles = {name: [f"{name} is a letter."] for name in "ABCDEFGHIJ"}
    (place / "wiki_articles.json").write_text(json.dumps(articles))
    test = [question(1, "A", "B"), question(2, "C", "D")]
    train = [question(3, "E", "F"), question(4, "A", "G"), {**question(5, "I", "J")}]
    train[2]["level"] = "easy"
    (place / "hotpot_dev_distractor_v1.json").write_text(json.dumps(test))
    (place / "hotpot_train_v1.1.json").write_text(json.dumps(train))
    (place / "dev_other.json").write_text("[]")
    return place


def test_training_leaves_out_what_shares_an_article_with_a_test_question(tmp_path: Path) -> None:
    env = HotpotQA(HotpotQAOptions(data=str(official_folder(tmp_path))))
    assert [task.id for task in env.tasks("dev_hard")] == ["dev_hard/q1", "dev_hard/q2"]
    assert [task.id for task in env.tasks("train")] == ["train/q3", "train/q5"]
    assert [task.source for task in env.tasks("train_hard")] == ["E | F"]
    assert env.protocol()["licence"] == LICENCE
    with pytest.raises(LdmError, match="7,405") as refused:
        env.tasks("react_500")
    assert "ldm data hotpotqa" in refused.value.remedy


def test_a_larger_collection_is_another_protocol(tmp_path: Path) -> None:
    protocols = []
    for number in range(2):
        folder = official_folder(tmp_path)
        if number:
            (folder / "wiki_articles_2.json").write_text(json.dumps({"New": ["New is new."]}))
        env = HotpotQA(HotpotQAOptions(data=str(folder)))
        env.tasks("dev_hard")
        protocols.append(env.protocol())
    assert protocols[0]["collection"] != protocols[1]["collection"]
    assert protocols[0]["data"] == protocols[1]["data"]


def test_ten_thousand_random_actions_raise_nothing(env: HotpotQA) -> None:
    rng = random.Random(stable_seed("hotpotqa", "fuzz"))
    pieces = ["search", "lookup", "finish", "think", "[", "]", "{", "|", "\\", "\n", "\x00", "é",
              "the", "Ada", " ", "'", '"', "&", "#", "%41", "\ud800", "may refer to:", "(film)",
              "Nan", "_", "—", "."]  # fmt: skip
    tasks = env.tasks("demo_test")
    library = env._open("demo_test")
    titles = [library[place][0] for place in range(len(library))]
    env.reset(tasks[0])
    for number in range(10_000):
        verb = rng.choice(("search", "search", "lookup", "finish", ""))
        inner = "".join(rng.choices(pieces, k=rng.randrange(6)))
        if rng.random() < 0.3:
            inner = rng.choice(titles)
        step = env.step(f"{verb}[{inner}]" if rng.random() < 0.9 else inner)
        assert isinstance(step.observation, str)
        assert 0 <= step.reward <= 1
        if step.done:
            env.reset(tasks[number % len(tasks)])


@pytest.mark.slow
def test_every_official_question_can_be_answered_from_its_two_articles(official: Path) -> None:
    env = HotpotQA(HotpotQAOptions(data=str(official)))
    count = 0
    for split in ("dev_hard", "train"):
        for task in env.tasks(split):
            record = env._game(task)
            env.reset(task)
            for title in record.titles:
                assert not env.step(f"search[{title}]").observation.startswith("Could not find")
            assert env.step(f"finish[{record.answer}]").reward == 1
            count += 1
    assert count == 600


def test_a_check_names_titles_without_an_article_and_with_two_texts(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="no questions"):
        data.check(tmp_path)
    official_folder(tmp_path)
    (tmp_path / "wiki_articles.json").write_text(json.dumps({"A": ["A."], "Extra": ["Other."]}))
    report = data.check(tmp_path)
    assert "B" in report.facts["missing"]
    assert report.facts["conflicts"] == ["Extra"]


@pytest.mark.slow
def test_the_official_files_are_whole(official: Path) -> None:
    report = data.check(official)
    counts = {split: sum(of.values()) for split, of in report.splits.items()}
    assert counts == {"train": 500, "train_hard": 85, "dev_hard": 100}
    assert (report.facts["articles"], report.facts["left_out"]) == (8_787, 0)
    assert report.facts["missing"] == []
    assert report.facts["conflicts"] == ["2013 Texas Longhorns football team"]
    assert not report.problems

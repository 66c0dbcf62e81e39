"""The classifier of task kinds is that of scikit-learn, and fair to kinds with few goals."""

import random

from ldm.memory.index import Kinds


def test_the_classifier_of_kinds_is_scikit_learns() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = ["put", "a", "clean", "hot", "cool", "two", "pen", "egg", "in", "fridge"]
    for kinds in (["clean", "heat"], ["clean", "heat", "cool"]):
        generator = random.Random(len(kinds))
        goals = [" ".join(generator.sample(words, 4)) for _ in range(60)]
        of_goals = [kinds[hash_of(goal) % len(kinds)] for goal in goals]
        counter = CountVectorizer(token_pattern=r"\w+", binary=True)
        regression = LogisticRegression(max_iter=1000, class_weight="balanced")
        model = make_pipeline(counter, regression)
        pairs = sorted({*zip(goals, of_goals, strict=True)})
        model.fit([goal for goal, _ in pairs], [kind for _, kind in pairs])
        classify = Kinds.trained(frozenset(zip(goals, of_goals, strict=True))).of
        queries = [" ".join(generator.sample([*words, "unseen"], 3)) for _ in range(200)]
        assert [classify(goal) for goal in queries] == model.predict(queries).tolist()


def test_kinds_with_many_goals_do_not_draw_those_of_others_to_them() -> None:
    things, places = ("egg", "cup", "pan", "fork", "soap"), ("shelf", "desk", "sink", "bed")
    goals = {f"put some {thing} in {place}.": "pick" for thing in things for place in places}
    goals |= {f"put a hot {thing} in {place}.": "heat" for thing in things for place in places}
    goals |= {"put a clean spoon in drawer.": "clean", "clean some lid and put it in box.": "clean"}
    classify = Kinds.trained(frozenset(goals.items())).of
    queries = [f"clean some {thing} and put it in {place}." for thing in things for place in places]
    assert {classify(goal) for goal in queries} == {"clean"}


def hash_of(goal: str) -> int:
    return len(goal) + goal.count("e")

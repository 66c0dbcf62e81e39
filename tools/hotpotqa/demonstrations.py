"""Which of the expert's episodes prompts show, with the thoughts and the plan of each, by rules.

A question of our own world is one of its templates, which tells what has to be found out; the
sentence that tells it is quoted from what was seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ldm.types import Trajectory
from tools.hotpotqa.world_generator import BRIDGES, COMPARISONS, SAME

_MISS = "Could not find "
#: Role of the first article → what it is called there, and what the second article is about.
_BETWEEN = {
    "director": ("the director of", "person"),
    "book": ("the novel behind", "novel"),
    "town": ("the town of", "town"),
    "singer": ("the singer of", "person"),
    "founder": ("the founder of", "person"),
    "author": ("the author of", "person"),
}
#: Role of the second article → what is asked of it.
_ASKED = {
    "town": "the birthplace",
    "author": "the author",
    "river": "the river",
    "instrument": "the instrument",
    "people": "the population",
    "born": "the year of birth",
    "region": "the region",
}
#: Role of both articles → what is compared, and how their sentences state it.
_COMPARED = {
    "formed": ("the years when they were formed", r"formed in (\d+)"),
    "length": ("their lengths", r"is ([\d,]+) kilometres"),
    "people": ("their populations", r"census ([\d,]+) people"),
    "year": ("their years", r"film of (\d+)"),
    "born": ("their years of birth", r"born [^)]*(\d{4})\)"),
    "seats": ("the seats of their grounds", r"has ([\d,]+) seats"),
    "town": ("the towns that they come from", r"from ([^.]+)\."),
    "region": ("the regions that they are in", r"region of ([^.]+)\."),
    "profession": ("their professions", r"\) is an? ([^.]+)\."),
}


@dataclass(frozen=True, slots=True)
class Form:
    """What a question asks.

    names: of the things that it names. roles: of a bridge the role in each article, of a
    comparison the one role. kind: of the things, "film", "band", …
    """

    kind: str
    names: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def template(self) -> tuple[str, ...]:
        """What is the same for all questions of this form."""
        return (self.kind, *self.roles)


def form_of(question: str) -> Form:
    """Return what a question of our own world asks."""
    for kind, roles, text in _templates():
        pattern = re.escape(text).replace(re.escape("{}"), "(.+)")
        if match := re.fullmatch(pattern, question):
            return Form(kind, match.groups(), roles)
    raise ValueError(f"no template asks {question!r}")


def _templates() -> Iterator[tuple[str, tuple[str, ...], str]]:
    for kind, first, second, *texts in BRIDGES:
        yield from ((kind, (first, second), text) for text in texts)
    for kind, role, text, _ in COMPARISONS:
        yield kind, (role,), text
    for kind, role, text in SAME:
        yield kind, (role,), text


def pick(episodes: Sequence[Trajectory]) -> Iterator[Trajectory]:
    """Yield six, each of another template, those that take the least room first.

    Three bridges: a plain one, one with a miss, one with a lookup; then a comparison, one answered
    by yes or no, and another comparison.
    """
    ranked = sorted(episodes, key=lambda episode: (_room(episode), episode.task.id))
    used: set[tuple[str, ...]] = set()
    kinds: tuple[tuple[str, Callable[[Trajectory], bool]], ...] = (
        ("bridge", lambda e: not _misses(e) and not _lookups(e)),
        ("bridge", lambda e: _misses(e) and not _lookups(e)),
        ("bridge", lambda e: _lookups(e) and not _misses(e)),
        ("comparison", lambda e: _plain(e) and not _whole(e)),
        ("comparison", lambda e: _plain(e) and _whole(e)),
        ("comparison", lambda e: _plain(e) and not _whole(e)),
    )
    for kind, fits in kinds:
        chosen = next(e for e in ranked if e.task.kind == kind and fits(e) and _new(e, used))
        used.add(form_of(chosen.task.goal).template)
        yield chosen


def think(episode: Trajectory) -> dict[int, str]:
    """Return a thought before every step: what was found out, and what is to be found out next."""
    form = form_of(episode.task.goal)
    write = _bridge_thought if episode.task.kind == "bridge" else _comparison_thought
    actions = [step.action for step in episode.steps]
    observations = ["", *(step.observation for step in episode.steps)]
    return {
        number: _after_miss(actions[number - 1], action)
        if observations[number].startswith(_MISS)
        else write(form, action, observations[: number + 1])
        for number, action in enumerate(actions)
    }


def divide(episode: Trajectory) -> str:
    """Return a plan as ADaPT's planner writes it: articles, what each tells, and the answer."""
    form = form_of(episode.task.goal)
    if episode.task.kind == "bridge":
        between, noun = _between(form)
        fact = f"{_ASKED[form.roles[1]]} of that {noun}"
        thought = f"The article of {form.names[0]} names {between}; that {noun} has an article too."
        steps = [
            f"find {form.names[0]}",
            f"read {'who' if noun == 'person' else 'what'} is {between}",
            f"find the article of that {noun}",
            f"look up {fact}",
            f"answer with {fact}",
        ]
    else:
        what, _ = _COMPARED[form.roles[0]]
        one, other = form.names
        thought = f"The articles of {one} and {other} have to be read, to compare {what}."
        answer = "yes or no" if _whole(episode) else "the name of the one that fits"
        steps = [f"find {one}", f"find {other}", f"compare {what}", f"answer with {answer}"]
    numbered = [f"Step {number}: {step}" for number, step in enumerate(steps, 1)]
    order = " AND ".join(f"Step {number}" for number in range(1, len(steps) + 1))
    return "\n".join([f"Think: {thought}", *numbered, f"Execution Order: {order}"])


def _bridge_thought(form: Form, action: str, observations: Sequence[str]) -> str:
    between, noun = _between(form)
    fact = _ASKED[form.roles[1]]
    verb, argument = _parts(action)
    if len(observations) == 1:
        return f"First I need {between}, then {fact} of that {noun}."
    if verb == "lookup":
        return f"What is shown does not tell {fact}. I look for the word {argument}."
    if verb == "finish":
        return f"{_telling(observations[-1], argument)} So the answer is {argument}."
    return f"{_telling(observations[-1], argument)} Next I need {fact} of {argument}."


def _comparison_thought(form: Form, action: str, observations: Sequence[str]) -> str:
    what, pattern = _COMPARED[form.roles[0]]
    verb, argument = _parts(action)
    if len(observations) == 1:
        return f"{form.names[0]} and {form.names[1]}: I have to compare {what}. First {argument}."
    if verb == "lookup":
        return f"What is shown does not tell {what}. I look for the word {argument}."
    if verb != "finish":
        return f"{_telling(observations[-1], pattern, literal=False)} Now {argument}."
    values = [match[1] for text in observations if (match := re.search(pattern, text))]
    if argument in ("yes", "no"):
        verdict = f"{values[0]} and {values[1]} are {'' if argument == 'yes' else 'not '}the same"
    else:
        lesser, greater = sorted(values, key=lambda value: int(value.replace(",", "")))
        verdict = f"{lesser} is less than {greater}"
    sentence = _telling(observations[-1], pattern, literal=False)
    return f"{sentence} {verdict[0].upper()}{verdict[1:]}, so the answer is {argument}."


def _after_miss(missed: str, action: str) -> str:
    """Return the thought that goes on with a title that a miss lists."""
    name, title = _parts(missed)[1], _parts(action)[1]
    return f"There is no article {name}, but {title} is listed, which is what I need."


def _between(form: Form) -> tuple[str, str]:
    words, noun = _BETWEEN[form.roles[0]]
    return f"{words} the {form.kind} {form.names[0]}", noun


def _telling(observation: str, sought: str, *, literal: bool = True) -> str:
    """Return the sentence of an observation that holds a name or fits a pattern."""
    pattern = re.escape(re.sub(r" \([^()]*\)$", "", sought)) if literal else sought
    sentences = re.split(
        r"(?<=\.) ",
        observation.partition(") ")[2] if observation.startswith("(Re") else observation,
    )
    sentence = next(one for one in sentences if re.search(pattern, one))
    return f"{sentence.rstrip('.')}."


def _parts(action: str) -> tuple[str, str]:
    verb, _, argument = action.rstrip("]").partition("[")
    return verb, argument


def _misses(episode: Trajectory) -> bool:
    return any(step.observation.startswith(_MISS) for step in episode.steps)


def _lookups(episode: Trajectory) -> bool:
    return any(step.action.startswith("lookup[") for step in episode.steps)


def _plain(episode: Trajectory) -> bool:
    return not _misses(episode) and not _lookups(episode)


def _whole(episode: Trajectory) -> bool:
    """Return whether the answer is yes or no."""
    return _parts(episode.steps[-1].action)[1] in ("yes", "no")


def _new(episode: Trajectory, used: set[tuple[str, ...]]) -> bool:
    return form_of(episode.task.goal).template not in used


def _room(episode: Trajectory) -> int:
    return sum(len(step.action) + len(step.observation) for step in episode.steps)

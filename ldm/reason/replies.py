"""A model's replies: request and count them, and match them to actions."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

from ldm import prompts
from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, LLM, Completion

#: Minimum similarity, in [0, 1], of an answer to the admissible action it is taken for.
MIN_SIMILARITY = 0.8
#: The shares of recalls and texts that are tried in turn if the model's context is too short.
TEXT_SHARES = (1.0, 0.5, 0.25)

#: The separator of several actions or numbers of one; not in brackets, which may hold search terms.
_SEPARATOR = re.compile(r"\s*;(?![^\[]*\])\s*| and then |(?<=\d), (?=\d)")

#: An action with an argument in brackets, within any other text.
_CALL = re.compile(r"\b(\w+)\[(.*)\]")

Match = Literal["exact", "normalised", "closest", "none", "free"]
T = TypeVar("T")


@dataclass
class ReplyCounts:
    """Thread-safe counts on a model's replies, by name."""

    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str) -> None:
        """Count one more of `name`."""
        with self._lock:
            self._counts[name] += 1

    def by_name(self) -> dict[str, int]:
        """Return the counts so far, sorted by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))


class Prompter:
    """Renders prompts, sends them to one model, and counts its replies.

    at_once: the number of items that one question may classify.
    """

    at_once: ClassVar[int] = 16

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.counts = ReplyCounts()

    def ask(self, prompt: str, form: type[Any], max_tokens: int, **variables: Any) -> Completion:
        """Return the model's reply to the prompt `reasoner/PROMPT` with these variables.

        form: the dataclass that the reply fills in; `Completion.value` is None if it does not.
        Raise the errors of `LLM.complete`.
        """
        completion = self.llm.complete(
            prompts.render(f"reasoner/{prompt}", **variables),
            schema=form,
            sampling=GREEDY,
            max_tokens=max_tokens,
        )
        self.counts.add("replies")
        if completion.malformed:
            self.counts.add("malformed")
        return completion


def fit_context(ask: Callable[[float], T]) -> T:
    """Return the answer to the longest question that fits the model's context.

    ask: asks with a share of the recalls and texts, 1 for all of them.
    Raise ContextTooLong if even the shortest question does not fit.
    """
    for share in TEXT_SHARES[:-1]:
        try:
            return ask(share)
        except ContextTooLong:
            continue
    return ask(TEXT_SHARES[-1])


def fit_context_or_none(ask: Callable[[float], T]) -> T | None:
    """Return the result of `fit_context`, or None if even the shortest question does not fit."""
    try:
        return fit_context(ask)
    except ContextTooLong:
        return None


def salvage_field(text: str, name: str) -> str:
    """Return field `name` of a reply with broken JSON, or the first line of one in plain text."""
    if match := re.search(rf'"{name}"\s*:\s*"((?:[^"\\\n]|\\.)*)', text):
        return match[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines and not lines[0].startswith(("{", "```", "[")) else ""


def match_action(
    answer: str, admissible: Sequence[str] | None, free: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, Match]:
    """Return the admissible action that an answer means, and how it was recognised.

    "free" if no actions are listed or the argument is free; "none" if nothing is similar: then the
    answer is returned as it is, and the environment may refuse it. Ties keep the order of
    `admissible`.

    free: verb → the placeholder of a free argument (`Card.free`).
    """
    answer = " ".join(answer.split())
    if not admissible:
        return answer, "free"
    if answer not in admissible and (match := _CALL.search(answer)):
        verb, argument = match[1].lower(), match[2].strip()
        listed = [action for action in admissible if action.startswith(f"{verb}[")]
        if verb in free and listed:
            # A copied placeholder stands for the listed argument.
            copied = argument in ("", free[verb])
            return (listed[0], "normalised") if copied else (f"{verb}[{argument}]", "free")
    if answer in admissible:
        return answer, "exact"
    normalised = [normalise_action(action) for action in admissible]
    action = normalise_action(answer)
    if action not in normalised:  # of several actions the first
        action = normalise_action(_SEPARATOR.split(answer)[0])
    if action in normalised:
        return admissible[normalised.index(action)], "normalised"
    similarity = [_similarity(action, other) for other in normalised]
    best = max(range(len(normalised)), key=lambda i: (similarity[i], -i))
    if similarity[best] >= MIN_SIMILARITY:
        return admissible[best], "closest"
    return answer, "none"


def _similarity(answer: str, action: str) -> float:
    """Return the similarity of two normalised actions, in [0, 1]; 0 if they surely differ.

    Another number means another thing: "cabinet 1" is not "cabinet 2". A name in brackets must be
    similar by itself: with the verb, "click[large]" and "click[x-large]" would be the same.
    """
    from rapidfuzz.distance import Levenshtein

    if re.findall(r"\d+", answer) != re.findall(r"\d+", action):
        return 0.0
    similarity = Levenshtein.normalized_similarity(answer, action)
    names = [text.partition("[")[2] for text in (answer, action)]
    return min(similarity, Levenshtein.normalized_similarity(*names)) if all(names) else similarity


def normalise_action(action: str) -> str:
    """Return an action without case, quotes, articles and an "Action:" before it."""
    bare = re.sub(r"^\W*(?:next )?(?:action|do|act)\s*:\s*", "", action.lower())
    bare = re.sub(r"\b(?:the|a|an)\s+", "", bare)
    return " ".join(re.sub(r"[^\w\[\]<>/$%.,' -]", " ", bare).strip(" .'-").split())

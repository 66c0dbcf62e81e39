"""The offline notes on a trajectory: an assessment and a summary, extracted from its actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ldm.reason import Notes
from ldm.reason.frames import read_command
from ldm.reason.reading import FUNCTION_WORDS, kind_of, words

#: Actions of a summary, the latest ones.
SUMMARY_LENGTH = 12


def running_notes(goal: str, actions: Iterable[str]) -> Iterator[Notes]:
    """Yield notes before the first action and after each, which is read once.

    The assessment has the verbs used on each thing that the goal names, the summary the actions.
    """
    used = {word: dict[str, None]() for word in words(goal) if word not in FUNCTION_WORDS}
    texts: list[str] = []

    def notes() -> Notes:
        assessed = (f"{word}: {', '.join(verbs) or 'not yet'}" for word, verbs in used.items())
        earlier = len(texts) - SUMMARY_LENGTH
        dropped = [f"({earlier} earlier)"] if earlier > 0 else []
        return Notes("; ".join(assessed), "; ".join([*dropped, *texts[-SUMMARY_LENGTH:]]))

    yield notes()
    for action in actions:
        command = read_command(action)
        texts.append(command.text)
        if command.verb in used:
            used[command.verb]["done"] = None
        for filler in command.fillers:
            used.get(kind_of(filler)[-1], {})[command.verb] = None
        yield notes()

"""The support desk's answers in other forms: does what is learnt depend on how tools write?

    python benchmarks/desk_forms.py [--worlds ../shared/worlds] [--episodes 200] [--tickets 160]

The same tickets each time, training ones of seeds from 50,000, played by what is learnt from the
recorded episodes, without a calibration. Prints the tickets that are closed rightly, per form.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ldm.reason.relevance import learn
from ldm.reason.vocabulary import FAILED, Lesson

WORLDS = Path(__file__).resolve().parents[2] / "shared" / "worlds"
Answer = dict[str, Any]


def cells(answer: Answer) -> list[tuple[str, str]]:
    """Return (path, value) of what an answer says once."""
    pairs = []
    for name, value in answer.items():
        if isinstance(value, dict):
            pairs += [(f"{name}.{path}", inner) for path, inner in cells(value)]
        elif not isinstance(value, list):
            pairs.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return pairs


def events(answer: Answer) -> list[dict[str, Any]]:
    """Return the entries of an answer's lists."""
    return [one for value in answer.values() if isinstance(value, list) for one in value]


def rows(answer: Answer, between: str) -> Iterator[str]:
    """Yield a table of one row, then the events, with a sign between the cells."""
    for parts in zip(*cells(answer), strict=True):
        yield between.join(parts)
    for one in events(answer):
        yield between.join(map(str, one.values()))


def nested(answer: Answer, deep: int = 0) -> Iterator[str]:
    """Yield the lines of YAML."""
    for name, value in answer.items():
        if isinstance(value, dict):
            yield f"{' ' * deep}{name}:"
            yield from nested(value, deep + 2)
        elif isinstance(value, list):
            yield f"{' ' * deep}{name}:"
            for one in value:
                yield f"{' ' * deep}  - {', '.join(f'{key}: {x}' for key, x in one.items())}"
        else:
            yield f"{' ' * deep}{name}: {json.dumps(value).strip(chr(34))}"


def element(name: str, value: Any) -> str:
    """Return an element of XML."""
    if isinstance(value, dict):
        inner = "".join(element(*one) for one in value.items())
    elif isinstance(value, list):
        inner = "".join(element("event", one) for one in value)
    else:
        inner = str(value)
    return f"<{name}>{inner}</{name}>"


def table(answer: Answer) -> Iterator[str]:
    """Yield a table of fields and values in Markdown."""
    yield from ("| field | value |", "|---|---|")
    yield from (f"| {path} | {value} |" for path, value in cells(answer))
    yield from (f"| event | {' '.join(map(str, one.values()))} |" for one in events(answer))


def pairs(answer: Answer) -> Iterator[str]:
    """Yield lines of key=value."""
    yield " ".join(f"{path}={value}" for path, value in cells(answer))
    for one in events(answer):
        yield " ".join(f'{name}="{value}"' for name, value in one.items())


def sentences(answer: Answer) -> Iterator[str]:
    """Yield prose."""
    for path, value in cells(answer):
        yield f"The {path.rpartition('.')[2].replace('_', ' ')} is {value}."
    yield from (f"At {one['ts']} {one['actor']} said {one['note']}." for one in events(answer))


def priced(answer: Answer) -> Iterator[str]:
    """Yield JSON whose prices have a currency."""
    result = answer.get("result", {})
    price = {"price": f"EUR {result['price']:.2f}"} if "price" in result else {}
    yield json.dumps({**answer, "result": {**result, **price}})


FORMS: dict[str, Callable[[Answer], Iterator[str]]] = {
    "JSON": lambda answer: iter([json.dumps(answer)]),
    "JSON, prices in EUR": priced,
    "YAML": nested,
    "XML": lambda answer: iter(["".join(element(*one) for one in answer.items())]),
    "table of fields": table,
    "table of one row": lambda answer: rows(answer, " | "),
    "CSV": lambda answer: rows(answer, ","),
    "key=value": pairs,
    "sentences": sentences,
}


def closed(desk: Any, form: Callable[[Answer], Iterator[str]], episodes: int, tickets: int) -> int:
    """Return how many tickets are closed rightly where answers have a form."""

    def shown(text: str) -> str:
        return "\n".join(form(json.loads(text))) if text.startswith("{") else text

    lessons = []
    for number, one in enumerate(desk.recorded_episodes(episodes)):
        past: tuple[tuple[str, str], ...] = ()
        for seen, call in one.steps:
            state = str(number), one.goal, "", past, shown(seen)
            lessons.append(Lesson(*state, call, weight=1.0 if one.success else FAILED))
            past = (*past, (state[-1], call))
    rule, right = learn(lessons, calibrated=False), 0
    for ticket in desk.unseen_worlds(tickets, mode="short", first=50_000):
        past = ()
        while not ticket.over:
            seen = shown(ticket.observation)
            ranked = rule.rank(rule.situation(ticket.goal, "", past, seen), None).ranked()
            call = ranked[0][0] if ranked else ""
            past = (*past, (seen, call))
            ticket.step(desk.filled(call, ticket))
        right += bool(ticket.success)
    return right


def main() -> None:
    """Print a Markdown table, a form as soon as it is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=Path, default=WORLDS)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--tickets", type=int, default=160)
    options = parser.parse_args()
    sys.path.insert(0, str(options.worlds))
    desk = importlib.import_module("support_desk")
    print(f"| form | closed, of {options.tickets} |\n|---|---|")
    for name, form in FORMS.items():
        print(f"| {name} | {closed(desk, form, options.episodes, options.tickets)} |", flush=True)


if __name__ == "__main__":
    main()

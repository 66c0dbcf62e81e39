"""A clinic with hidden rules: an agent asks for charts, tests and scans, then decides."""

import json
import random
from collections.abc import Iterator

from ldm.reason.vocabulary import FAILED, Lesson

COMPLAINTS = {
    "fever": ("patient {p} feels hot", "{p} shivers and is hot since yesterday"),
    "cough": ("{p} coughs", "patient {p} coughs at night"),
    "wound": ("{p} cut a finger", "patient {p} has a cut"),
}
ENDS = ("discharge", "admit", "prescribe", "refer", "dress", "suture", "vaccinate")
READS = ("open_chart", "measure", "scan", "inspect")


def call(name: str, **arguments: str) -> str:
    """An action, as JSON."""
    return json.dumps({"do": name, "with": arguments})


class Patient:
    """A patient of the clinic, made from a seed. script: the right calls in their order."""

    def __init__(self, seed: int, *, changed: bool = False) -> None:
        draw = random.Random(f"patient {seed}")
        self.draw, self.complaint = draw, draw.choice(list(COMPLAINTS))
        self.name = f"P-{draw.randint(1000, 9999)}"
        self.goal = draw.choice(COMPLAINTS[self.complaint]).format(p=self.name)
        self.age, self.smokes = draw.randint(18, 90), draw.random() < 0.5
        self.heat = draw.choice((37.2, 38.1, 38.6, 39.4, 40.2))
        self.shadow = draw.choice(("none", "left", "right", "both"))
        self.depth, self.expired = draw.choice((1, 2, 4, 7)), draw.random() < 0.5
        self.script = [call("open_chart", patient=self.name), *self._rest(changed=changed)]

    def _rest(self, *, changed: bool) -> list[str]:
        match self.complaint:
            case "fever":
                if self.heat <= 39:
                    end = call("discharge")
                elif self.age > 60:
                    end = call("admit", ward="west")
                else:
                    end = call("admit", ward="day") if changed else call("prescribe", drug="cooler")
                return [call("measure", what="heat"), end]
            case "cough":
                if self.shadow == "none":
                    end = call("discharge")
                elif self.smokes:
                    end = call("refer", to="lungs")
                else:
                    end = call("prescribe", drug="mould")
                return [call("scan", part="chest"), end]
        if self.depth <= 3:
            end = call("dress")
        else:
            end = call("vaccinate") if self.expired else call("suture")
        return [call("inspect", what="cut"), end]

    def answer(self, name: str) -> str:
        """What a call shows."""
        noise = {"trace": {"id": f"{self.draw.random():.9f}", "load": self.draw.randint(1, 99)}}
        facts: dict[str, dict[str, object]] = {
            "open_chart": {"age": self.age, "habits": {"smokes": self.smokes}},
            "measure": {"reading": {"heat": self.heat}},
            "scan": {"image": {"shadow": self.shadow, "sharp": True}},
            "inspect": {"depth_mm": self.depth, "vaccine": "old" if self.expired else "fresh"},
        }
        return json.dumps({"patient": self.name, **facts.get(name, {"error": "no"}), **noise})


def lessons(
    count: int, *, first: int = 0, noise: float = 0.1, changed: bool = False, kinds: bool = False
) -> Iterator[Lesson]:
    """Yield the steps of episodes of an agent that errs at a share of the steps."""
    for seed in range(first, first + count):
        patient = Patient(seed, changed=changed)
        draw, todo, worked = random.Random(f"agent {seed}"), [*patient.script], False
        past: tuple[tuple[str, str], ...] = ()
        seen, steps = "A patient waits.", list[tuple[tuple[tuple[str, str], ...], str, str]]()
        while len(steps) < 8:
            action = todo[0] if draw.random() >= noise else call(draw.choice(ENDS + READS))
            steps.append((past, seen, action))
            past = (*past, (seen, action))
            if action == todo[0]:
                todo.pop(0)
            name = json.loads(action)["do"]
            worked = not todo
            if name in ENDS:
                break
            seen = patient.answer(name)
        for before, text, action in steps:
            kind = patient.complaint if kinds else ""
            weight = 1.0 if worked else FAILED
            yield Lesson(f"e{seed:05}", patient.goal, kind, before, text, action, None, weight)

"""A second desk, a bank's: six kinds of case, sixteen tools, and rules that no answer states.

Answers are nested JSON, lines "key: value" or prose; what decides stands among what does not, also
in lists; identifiers are of hexadecimal digits. It offers the names that `desk_benchmark.py` of the
worlds expects of a desk, without a drift. The same seed gives the same case in every process.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

READS = (
    "fetch_customer", "fetch_account", "list_transactions", "credit_report", "fraud_check",
    "document_status", "rate_table",
)  # fmt: skip
WRITES = (
    "approve", "decline", "refer", "refund_fee", "block_card", "order_card", "raise_limit",
    "request_document", "answer",
)  # fmt: skip
IDENTIFIERS = {"CUSTOMER": r"C-[0-9a-f]{6}", "ACCOUNT": r"AC\d{8}"}
#: The first seed of recorded cases and of those to be worked on, and the most calls of a case.
RECORDED, TESTED, MOST_STEPS = 0, 100_000, 10
GOALS = {
    "loan": (
        "Customer {c} applies for a loan of {amount} euros.",
        "{c} wants to borrow {amount} for a {purpose}.",
        "New loan request, {amount} EUR, customer {c}",
    ),
    "fee": ("{c} complains about a fee on {a}.", "Please take back the charge on {a}, says {c}"),
    "card": ("{c} lost the card of {a}.", "Card for {a} is gone ({c}).", "stolen card! {a} {c}"),
    "limit": ("{c} asks for a higher limit on {a}.", "raise limit {a} {c}"),
    "mortgage": ("{c} asks for a mortgage of {amount}.", "mortgage enquiry {amount} by {c}"),
    "dispute": (
        "{c} does not recognise a payment on {a}.",
        "unknown debit {a}, {c} wants it checked",
    ),
}
Call = tuple[str, dict[str, str]]


class World:
    """A case: who asks for what, what the tools answer, and what is right."""

    def __init__(self, seed: int) -> None:
        """Draw a case."""
        draw = random.Random(f"bank {seed}")
        self.seed, self.kind = seed, draw.choice([*GOALS])
        self.customer = f"C-{draw.randrange(16**6):06x}"
        self.account = f"AC{draw.randrange(10**8):08}"
        self.amount = draw.choice((500, 2000, 8000, 20000, 60000))
        purpose = draw.choice(("car", "kitchen", "holiday", "roof"))
        self.segment = draw.choice(("retail", "premium", "business"))
        self.score = draw.choice((420, 510, 580, 640, 700, 780))
        flags = ["late_payment", "new_address", "vip", "pep", "student"]
        self.flags = draw.sample(flags, draw.choice((0, 1, 2)))
        self.balance = draw.choice((-350, -20, 15, 400, 2500, 9000))
        self.fraud = draw.choice(("low", "medium", "high"))
        self.document = draw.choice(("complete", "missing", "expired"))
        self.overdrafts = draw.choice((0, 0, 1, 3))
        self.country = draw.choice(("DE", "FR", "US"))
        wording = draw.choice(GOALS[self.kind])
        names = {"c": self.customer, "a": self.account, "amount": self.amount, "purpose": purpose}
        self.goal = wording.format(**names)
        self.observation, self.over, self.success = "Case opened.", False, False
        self.history: list[tuple[str, str]] = []
        self._done: set[str] = set()

    def expert_call(self) -> str:
        """Return the right call."""
        return write_call(*self._next())

    def decisive(self) -> bool:
        """Return whether the right call is one that the rules decide."""
        return self._next()[0] in WRITES

    def random_call(self, draw: random.Random) -> str:
        """Return a call at random."""
        name = draw.choice(READS + WRITES)
        about = ({"customer": self.customer}, {"account": self.account})
        return write_call(name, draw.choice(about))

    def step(self, call: str) -> str:
        """Make a call; the first one that writes ends the case."""
        right = self._next()
        self.history.append((self.observation, call))
        name, arguments = read_call(call)
        if name in READS:
            known = {self.customer, self.account, "all"}
            if not arguments or not known.issuperset(arguments.values()):
                self.observation = "error: not found"
            else:
                self._done.add(name)
                self.observation = self._answer(name)
        elif name in WRITES:
            self.over, self.success = True, (name, arguments) == right
            self.observation = "done" if self.success else "complaint"
        else:
            self.observation = "error: unknown"
        self.over = self.over or len(self.history) >= MOST_STEPS
        return self.observation

    def _next(self) -> Call:
        return next(call for call in self._script() if call[0] not in self._done)

    def _script(self) -> list[Call]:
        """Return the right calls of the case, the one that decides last."""
        of, on = {"customer": self.customer}, {"account": self.account}
        reads = {
            "loan": ["fetch_customer", "credit_report"]
            + ["document_status"] * (self.amount > 10_000),
            "fee": ["fetch_customer", "fetch_account", "list_transactions"],
            "card": ["fetch_account", "fraud_check"],
            "limit": ["fetch_customer", "fetch_account"],
            "mortgage": ["fetch_customer", "rate_table"],
            "dispute": ["fetch_account", "fraud_check", "list_transactions"],
        }
        about_account = {"fetch_account", "fraud_check", "list_transactions"}
        calls: list[Call] = []
        for name in reads[self.kind]:
            table = {"segment": "all"} if name == "rate_table" else of
            calls.append((name, on if name in about_account else table))
        return [*calls, self._decision(of, on)]

    def _decision(self, of: dict[str, str], on: dict[str, str]) -> Call:
        """Return the call that is right once all is read. of: the customer. on: the account."""
        if self.kind == "loan":
            if self.score < 550:
                return "decline", {**of, "reason": "score"}
            if self.amount > 10_000 and self.document != "complete":
                return "request_document", {**of, "kind": "income"}
            return "approve", of
        if self.kind == "fee":
            if self.overdrafts == 0 or self.segment == "premium":
                return "refund_fee", on
            return "answer", {"template": "fee_correct"}
        if self.kind == "card":
            return ("block_card" if self.fraud == "high" else "order_card"), on
        if self.kind == "limit":
            if "late_payment" in self.flags:
                return "decline", {**of, "reason": "flags"}
            return (
                ("raise_limit", on) if self.balance > 100 else ("answer", {"template": "balance"})
            )
        if self.kind == "mortgage":
            return "refer", {**of, "team": "business" if self.segment == "business" else "mortgage"}
        if self.fraud == "low":
            return "answer", {"template": "legitimate"}
        return ("block_card", on) if self.fraud == "high" else ("refer", {**of, "team": "fraud"})

    def _answer(self, name: str) -> str:
        """Return what a tool says, mostly what decides nothing."""
        draw, value = random.Random(f"{self.seed} {name}"), dict[str, Any]()
        if name == "fetch_customer":
            profile = {"segment": self.segment, "country": self.country, "flags": self.flags}
            since = f"20{draw.randint(10, 25)}-0{draw.randint(1, 9)}-11"
            value = {"customer": {"id": self.customer, "profile": profile, "since": since}}
        elif name == "fetch_account":
            return (
                f"account: {self.account}\nowner: {self.customer}\nbalance: {self.balance}\n"
                f"currency: EUR\nopened: 20{draw.randint(10, 25)}\nbranch: {draw.randint(100, 999)}"
            )
        elif name == "list_transactions":
            items = [
                {
                    "amount": draw.randint(-500, 500),
                    "text": draw.choice(("grocery", "rent", "salary", "fee", "transfer")),
                    "ref": f"{draw.randrange(16**8):08x}",
                }
                for _ in range(draw.choice((0, 3, 12)))
            ]
            summary = {"overdrafts_90d": self.overdrafts}
            value = {"account": self.account, "summary": summary, "items": items}
        elif name == "credit_report":
            inquiries, bureau = draw.randint(0, 9), draw.choice(("A", "B"))
            value = {"report": {"score": self.score, "inquiries": inquiries, "bureau": bureau}}
        elif name == "fraud_check":
            return (
                f"Fraud check of {self.account}: risk is {self.fraud}. Checked "
                f"{draw.randint(3, 40)} rules in {draw.randint(10, 900)} ms."
            )
        elif name == "document_status":
            states = (("income", self.document), ("id", "complete"))
            value = {"documents": [{"kind": kind, "state": state} for kind, state in states]}
        else:
            rates = [{"years": y, "rate": round(draw.uniform(2, 5), 2)} for y in (5, 10, 20)]
            value = {"rates": rates}
        return json.dumps(value)


def write_call(name: str, arguments: dict[str, str]) -> str:
    """Return a call as an agent writes it."""
    return json.dumps({"name": name, "arguments": arguments})


def read_call(call: str) -> Call:
    """Return name and arguments of a call, empty if it is none."""
    try:
        read = json.loads(call)
        return str(read["name"]), dict(read["arguments"])
    except (ValueError, KeyError, TypeError):
        return "", {}


def masked(text: str) -> str:
    """Return a text with a name in place of each identifier."""
    for name, pattern in IDENTIFIERS.items():
        text = re.sub(pattern, name, text)
    return text


def filled(action: str, world: World) -> str:
    """Return a call with the identifiers of the case."""
    texts = "\n".join([world.goal, *(text for text, _ in world.history), world.observation])
    for name, pattern in IDENTIFIERS.items():
        if match := re.search(pattern, texts):
            action = re.sub(f"{pattern}|\\b{name}\\b", match[0], action)
    return action


@dataclass(frozen=True)
class Episode:
    """A recorded case. steps: (text in sight, call). end: the last answer."""

    goal: str
    steps: tuple[tuple[str, str], ...]
    end: str
    success: bool
    kind: str


def recorded_episodes(
    count: int, first: int = RECORDED, *, mode: str = "short", drift: bool = False
) -> Iterator[Episode]:
    """Yield the episodes of an agent that is right with probability 0.85 at each step."""
    for seed in range(first, first + count):
        world, draw = World(seed), random.Random(f"b {seed}")
        while not world.over:
            right = draw.random() < 0.85
            world.step(world.expert_call() if right else world.random_call(draw))
        yield Episode(
            world.goal, tuple(world.history), world.observation, world.success, world.kind
        )


def unseen_worlds(
    count: int, first: int = TESTED, *, mode: str = "short", drift: bool = False
) -> Iterator[World]:
    """Yield cases that are in no recording."""
    yield from map(World, range(first, first + count))

"""A small invented world: articles about its towns, people and works, and questions over two.

Everything is drawn from a seed and written in our own words. The world has two halves that share
no article, so that no question of one split has a gold article of the other's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldm.errors import LdmError
from ldm.types import stable_seed
from tools.hotpotqa.names import Names


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SEED = 1809_09600
_MONTHS = _words(
    "January February March April May June July August September October November December"
)
_PROFESSIONS = ("novelist", "film director", "singer", "engineer")
_INSTRUMENTS = ("accordion", "cello", "clarinet", "harp", "mandolin", "trumpet", "viola")
_GOODS = ("bicycles", "clocks", "paper", "pianos", "pumps", "porcelain", "sewing machines", "tiles")
_GENRES = ("brass", "folk", "jazz", "punk", "swing")
_SUBJECTS = ("a lighthouse keeper", "two sisters", "a lost map", "a travelling circus", "a strike")
#: Facts beyond these are not among the five sentences that a search shows.
_SHOWN = 5


@dataclass(slots=True)
class Entity:
    """Something with an article of its own.

    name: as sentences call it. title: of the article, with a qualifier where names are alike.
    facts: what the article says about it, by role. sentences: its text. where: role → the number
    of the sentence that states the fact.
    """

    kind: str
    name: str
    title: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    where: dict[str, int] = field(default_factory=dict)

    def say(self, sentence: str, *roles: str) -> None:
        """Add a sentence that states the facts of these roles."""
        self.where.update(dict.fromkeys(roles, len(self.sentences)))
        self.sentences.append(sentence if not self.sentences else f" {sentence}")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many there are of each kind in one half of the world."""

    towns: int
    rivers: int
    people: int
    bands: int
    films: int
    books: int
    firms: int
    clubs: int


TRAIN_COUNTS = Counts(38, 16, 84, 28, 34, 26, 22, 20)
TEST_COUNTS = Counts(20, 9, 44, 15, 18, 13, 12, 12)


class Half:
    """One half of the world: its entities by kind, and their articles."""

    def __init__(self, rng: random.Random, names: Names, counts: Counts) -> None:
        self._rng = rng
        self._names = names
        self.of: dict[str, list[Entity]] = {}
        regions = [names.region() for _ in range(3)]
        self._make("river", counts.rivers, names.river, lambda e: self._river(e, regions))
        self._make("town", counts.towns, names.town, lambda e: self._town(e, regions))
        self._make("person", counts.people, names.person, self._person)
        self._make("book", counts.books, names.title, self._book)
        self._make("band", counts.bands, names.band, self._band)
        self._make("film", counts.films, names.title, self._film)
        self._make("firm", counts.firms, names.firm, self._firm)
        self._make("club", counts.clubs, lambda: "", self._club)

    @property
    def entities(self) -> list[Entity]:
        return [entity for group in self.of.values() for entity in group]

    def _make(
        self, kind: str, count: int, name: Callable[[], str], write: Callable[[Entity], None]
    ) -> None:
        self.of[kind] = []
        for _ in range(count):
            entity = Entity(kind, name())
            write(entity)
            entity.title = entity.title or entity.name
            self.of[kind].append(entity)

    def _one(self, kind: str) -> Entity:
        return self._rng.choice(self.of[kind])

    def _year(self, first: int, last: int) -> int:
        return self._rng.randint(first, last)

    def _river(self, river: Entity, regions: Sequence[str]) -> None:
        rng = self._rng
        region, length = rng.choice(regions), rng.randrange(31, 640)
        river.facts = {"region": region, "length": length}
        river.say(f"The {river.name} is a river in the region of {region}.", "region")
        river.title = f"{river.name} (river)" if rng.random() < 0.3 else river.name
        river.say(f"From its spring to the sea it is {length} kilometres long.", "length")
        river.say(f"Boats have used its lower course since {self._year(1210, 1780)}.")
        if rng.random() < 0.5:
            river.say(f"It carries most water in {rng.choice(_MONTHS)}.")

    def _town(self, town: Entity, regions: Sequence[str]) -> None:
        rng, river = self._rng, self._one("river")
        region = river.facts["region"]
        people, founded = rng.randrange(1_900, 240_000), self._year(980, 1640)
        town.facts = {"river": river, "people": people, "founded": founded, "region": region}
        town.say(f"{town.name} is a town in the region of {region}.", "region")
        town.say(f"It lies on the river {river.name}.", "river")
        town.say(f"Its market was first mentioned in {founded}.", "founded")
        town.say(f"A fair is held there every {rng.choice(_MONTHS)}.")
        if rng.random() < 0.5:
            town.say(f"The town hall with its {rng.choice(['round', 'square', 'tall'])} tower was "
                     f"built in {self._year(1650, 1890)}.")  # fmt: skip
            town.say(f"{rng.choice(_GOODS).capitalize()} have been made there for generations.")
        town.say(f"At the last census {people:,} people lived in the town.", "people")

    def _person(self, person: Entity) -> None:
        rng, town = self._rng, self._one("town")
        # Every profession has its share, so that no kind of work lacks its makers.
        profession = _PROFESSIONS[len(self.of["person"]) % len(_PROFESSIONS)]
        born, day = self._year(1871, 1979), f"{rng.randint(1, 28)} {rng.choice(_MONTHS)}"
        person.facts = {"profession": profession, "town": town, "born": born}
        person.say(f"{person.name} (born {day} {born}) is {_a(profession)}.", "born",
                   "profession")  # fmt: skip
        person.say(f"The family came from {town.name}, where {person.name} was born.", "town")
        person.say(f"A first success came at the age of {rng.randint(17, 45)}.")
        if profession == "singer":
            instrument = rng.choice(_INSTRUMENTS)
            person.facts["instrument"] = instrument
            person.say(f"A scholarship led to {rng.randint(2, 6)} years of study abroad.")
            person.say(f"There the songs of the first tour were written in {born + 22}.")
            person.say(f"Besides singing, {person.name} plays the {instrument} on stage.",
                       "instrument")  # fmt: skip
        elif profession == "engineer":
            person.say(f"Several patents were granted between {born + 25} and {born + 40}.")
        person.say(f"{person.name.split()[0]} has lived by the sea since {born + 41}.")

    def _maker(self, profession: str) -> Entity:
        return self._rng.choice(
            [one for one in self.of["person"] if one.facts["profession"] == profession]
        )

    def _book(self, book: Entity) -> None:
        author, year = self._maker("novelist"), self._year(1902, 1999)
        book.facts = {"author": author, "year": year}
        book.title = f"{book.name} (novel)" if self._rng.random() < 0.25 else book.name
        book.say(f"{book.name} is a novel by {author.name}.", "author")
        book.say(f"It was first published in {year}.", "year")
        book.say(f"It tells of {self._rng.choice(_SUBJECTS)}.")
        if self._rng.random() < 0.4:
            book.say(f"{self._rng.randint(3, 30)} translations have appeared since then.")

    def _band(self, band: Entity) -> None:
        rng, town, singer = self._rng, self._one("town"), self._maker("singer")
        formed = self._year(1955, 2012)
        band.facts = {"town": town, "singer": singer, "formed": formed}
        band.title = f"{band.name} (band)" if rng.random() < 0.2 else band.name
        band.say(f"{band.name} are a {rng.choice(_GENRES)} band from {town.name}.", "town")
        band.say(f"They were formed in {formed} by four friends from school.", "formed")
        band.say(f"{singer.name} has been their singer since the second album.", "singer")
        band.say(f"Their album {self._names.title()} sold {rng.randrange(10, 900)},000 copies.")

    def _film(self, film: Entity) -> None:
        rng, director, year = self._rng, self._maker("film director"), self._year(1931, 2015)
        # A film of a novel has its name, so that the bare name is ambiguous.
        book = self._one("book") if rng.random() < 0.7 else None
        taken = {one.facts.get("book") and one.facts["book"].name for one in self.of["film"]}
        film.facts = {"director": director, "year": year}
        film.say(
            f"{film.name} is a film of {year} directed by {director.name}.", "director", "year"
        )
        if book is not None and book.name not in taken:
            film.facts["book"] = book
            if rng.random() < 0.35:
                film.name, film.title = book.name, f"{book.name} (film)"
                film.sentences[0] = f"{film.name} is a film of {year} directed by {director.name}."
                book.title = f"{book.name} (novel)"
                film.say("It keeps the name of the novel that it was made from.")
            film.say(f"The script follows the novel {book.name}.", "book")
        film.say(
            f"It was shot in and around {self._one('town').name} within {rng.randint(4, 19)} weeks."
        )
        film.say(f"The music won a prize in {year + 1}.")

    def _firm(self, firm: Entity) -> None:
        rng, town, founder = self._rng, self._one("town"), self._maker("engineer")
        goods, year = rng.choice(_GOODS), founder.facts["born"] + rng.randint(24, 50)
        firm.facts = {"town": town, "founder": founder, "year": year, "goods": goods}
        firm.say(f"{firm.name} is a maker of {goods}.", "goods")
        firm.say(f"It has its seat in {town.name}.", "town")
        firm.say(f"{founder.name} founded the firm in {year}.", "founder", "year")
        firm.say(f"It employs {rng.randrange(40, 4_000):,} people.")

    def _club(self, club: Entity) -> None:
        rng, town = self._rng, self._one("town")
        names = {one.name for one in self.of["club"]}
        forms = ("{} Rovers", "{} Athletic", "FC {}", "{} United")
        club.name = next(n for form in forms if (n := form.format(town.name)) not in names)
        founded, seats = self._year(1880, 1965), rng.randrange(900, 52_000)
        club.facts = {"town": town, "founded": founded, "seats": seats}
        club.say(f"{club.name} is a football club.")
        club.say(f"It was founded in {founded} and plays its home matches in {town.name}.",
                 "town", "founded")  # fmt: skip
        club.say(f"Its ground has {seats:,} seats.", "seats")
        club.say(f"The colours are {rng.choice(['blue', 'green', 'red'])} and white.")


@dataclass(frozen=True, slots=True)
class Draft:
    """A question, its answer, and the (entity, role) pairs that it follows from, in order."""

    text: str
    answer: str
    kind: str
    facts: tuple[tuple[Entity, str], ...]


def drafts(half: Half, rng: random.Random) -> Iterator[Draft]:
    """Yield all questions that one half of the world allows, bridges first, shuffled."""
    bridges = list(_bridges(half))
    rng.shuffle(bridges)
    yield from bridges
    comparisons = list(_comparisons(half, rng))
    rng.shuffle(comparisons)
    yield from comparisons


#: Kind, role of the first article, role of the second, and the question in several words.
BRIDGES = (
    ("film", "director", "town", "In which town was the director of the film {} born?",
     "What is the birthplace of the director who made the film {}?"),
    ("film", "book", "author", "Who wrote the novel that the film {} was made from?",
     "The film {} follows a novel; who is its author?"),
    ("band", "town", "river", "On which river lies the town that the band {} comes from?",
     "Which river flows through the home town of the band {}?"),
    ("band", "singer", "instrument", "Which instrument does the singer of {} play on stage?",
     "Besides singing, what does the singer of the band {} play on stage?"),
    ("firm", "town", "people", "How many people lived at the last census in the town where {} has "
     "its seat?", "What was the population at the last census of the town in which the firm {} "
     "has its seat?"),
    ("firm", "founder", "born", "In which year was the founder of {} born?",
     "What is the year of birth of the person who founded the firm {}?"),
    ("club", "town", "region", "In which region does the football club {} play its home matches?",
     "The home ground of the football club {} is in a town of which region?"),
    ("book", "author", "town", "In which town was the author of the novel {} born?",
     "Where was the novelist born who wrote {}?"),
)  # fmt: skip


def _bridges(half: Half) -> Iterator[Draft]:
    for kind, first, second, *texts in BRIDGES:
        for number, entity in enumerate(half.of[kind]):
            between = entity.facts.get(first)
            if between is None or second not in between.facts:
                continue
            answer = _text_of(between.facts[second])
            text = texts[number % len(texts)].format(entity.name)
            yield Draft(text, answer, "bridge", ((entity, first), (between, second)))


#: Kind, role, the question, and whether the greater value is asked for.
COMPARISONS = (
    ("band", "formed", "Which band was formed first, {} or {}?", False),
    ("river", "length", "Which river is longer, the {} or the {}?", True),
    ("town", "people", "Which town had more inhabitants at the last census, {} or {}?", True),
    ("film", "year", "Which film is older, {} or {}?", False),
    ("person", "born", "Who was born later, {} or {}?", True),
    ("club", "seats", "Whose ground has more seats, that of {} or that of {}?", True),
)
#: Kind, role, and a question that is answered by yes or no.
SAME = (
    ("band", "town", "Do the bands {} and {} come from the same town?"),
    ("river", "region", "Are the rivers {} and {} in the same region?"),
    ("person", "profession", "Do {} and {} have the same profession?"),
)


def _comparisons(half: Half, rng: random.Random) -> Iterator[Draft]:
    for kind, role, text, greater in COMPARISONS:
        entities = rng.sample(half.of[kind], len(half.of[kind]))
        for one, other in zip(entities[::2], entities[1::2], strict=False):
            values = one.facts[role], other.facts[role]
            if values[0] != values[1]:
                winner = one if (values[0] > values[1]) == greater else other
                both = ((one, role), (other, role))
                yield Draft(text.format(one.name, other.name), winner.name, "comparison", both)
    for kind, role, text in SAME:
        entities = rng.sample(half.of[kind], len(half.of[kind]))
        pairs = list(zip(entities[::2], entities[1::2], strict=False))
        same = [pair for pair in pairs if pair[0].facts[role] is pair[1].facts[role]
                or pair[0].facts[role] == pair[1].facts[role]]  # fmt: skip
        different = [pair for pair in pairs if pair not in same]
        for number, (one, other) in enumerate([*same[:2], *different[: max(1, len(same[:2]))]]):
            answer = "yes" if number < len(same[:2]) else "no"
            both = ((one, role), (other, role))
            yield Draft(text.format(one.name, other.name), answer, "comparison", both)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _text_of(value: object) -> str:
    if isinstance(value, Entity):
        return value.name
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)


@dataclass(frozen=True, slots=True)
class World:
    """articles: title → sentences. questions: of each split, in the form of the official files."""

    articles: dict[str, list[str]]
    questions: dict[str, list[dict[str, Any]]]


def generate(seed: int = SEED) -> World:
    """Return the world of a seed: 120 training and 60 test questions, two thirds of them bridges.

    Raise LdmError if a bridge's answer is not in its sentence, or stands in the question.
    """
    rng = random.Random(stable_seed("hotpotqa", seed))
    names = Names(rng)
    articles: dict[str, list[str]] = {}
    questions: dict[str, list[dict[str, Any]]] = {}
    for split, counts, total in (("demo_train", TRAIN_COUNTS, 120), ("demo_test", TEST_COUNTS, 60)):
        half = Half(rng, names, counts)
        for entity in half.entities:
            articles[entity.title] = entity.sentences
        available = list(drafts(half, rng))
        bridges = [one for one in available if one.kind == "bridge"][: total * 2 // 3]
        others = _with_yes_and_no([one for one in available if one.kind != "bridge"], total // 3)
        chosen = [*bridges, *others]
        rng.shuffle(chosen)
        questions[split] = [_entry(split, n, one, rng) for n, one in enumerate(chosen, start=1)]
        if len({entry["question"] for entry in questions[split]}) != total:
            raise LdmError(f"{split} asks a question twice or too few.", "Draw another world.")
        for entry in questions[split]:
            _check_entry(entry, articles)
    return World(articles, questions)


def _with_yes_and_no(comparisons: list[Draft], count: int) -> list[Draft]:
    """Return `count` comparisons, a sixth of them answered by yes or no, in equal parts."""
    yes = [one for one in comparisons if one.answer == "yes"]
    no = [one for one in comparisons if one.answer == "no"]
    each = count // 12
    others = [one for one in comparisons if one.answer not in ("yes", "no")]
    whole = [*yes[:each], *no[: max(each, count // 6 - len(yes[:each]))]]
    return [*whole, *others[: count - len(whole)]]


def _entry(split: str, number: int, draft: Draft, rng: random.Random) -> dict[str, Any]:
    return {
        "_id": f"{split}-{number:03}",
        "question": draft.text,
        "answer": draft.answer,
        "type": draft.kind,
        "level": rng.choice(("easy", "medium", "hard")),
        "supporting_facts": [[entity.title, entity.where[role]] for entity, role in draft.facts],
        "context": [],
    }


def _check_entry(entry: dict[str, Any], articles: dict[str, list[str]]) -> None:
    """Raise LdmError if a bridge's answer is not in its sentence, or is in the question."""
    (_, _), (title, number) = entry["supporting_facts"]
    sentence, answer = articles[title][number], entry["answer"]
    if entry["type"] == "bridge" and (answer not in sentence or answer in entry["question"]):
        raise LdmError(f"{entry['question']} is not answered by {sentence!r}.", "Draw it anew.")

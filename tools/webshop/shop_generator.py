"""A shop of our own: seeded products and goals in the official file form, for use without data.

Products come in families: one is the base, each other differs from it in one respect (an
attribute, the values on offer, the price). So a search brings up what is nearly right, and only
reading tells which one is.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.types import stable_hash, stable_seed
from tools.webshop.product_types import DEPARTMENTS, SAYS, Department, Ware

#: The number of products in each family of a ware.
FAMILIES = (3, 3, 4, 3)
TRAITS_EACH = (2, 3)
VALUES_EACH = (3, 6)
#: How much dearer the dear one of a family is.
DEARER = (1.5, 2.1)
#: Attributes that say what a thing is for.
_FOR = frozenset(("living room", "dry skin", "sensitive skin", "carry on"))
#: Attributes that a thing has; all others are what it is.
_THINGS_HAD = """usb port, motion sensor, memory foam, zipper closure, solid wood, storage space,
lumbar support, high waist, tummy control, side pockets, drawstring closure, arch support,
rubber sole, ankle support, closed toe, wide width, laptop compartment, water bottle pocket,
hanging hook, stereo sound, dual alarm, wireless charging, tempered glass, hyaluronic acid,
coconut oil, resealable bag, slim fit, loose fit, long sleeve, fast charging, warm white,
double wall"""
_HAD = frozenset(trait.strip() for trait in _THINGS_HAD.split(","))
_BRANDS = (
    ("Vel", "Nor", "Hal", "Bri", "Cas", "Dor", "Elm", "Fen", "Gal", "Jun", "Kes", "Lor", "Tam"),
    ("mora", "kest", "vinde", "dane", "fjell", "wick", "orin", "lume", "haven", "stead", "tique"),
)
_SERIES = ("Aria", "Nordic", "Everyday", "Studio", "Classic", "Urban", "Breeze", "Heritage", "")
_TITLES = (
    "{brand} {series} {made} {head}, {traits} for {use}",
    "{brand} {made} {head} for {use} - {traits}",
    "{made} {head} by {brand} {series}, {traits}, Ideal for {use}",
    "{brand} {traits} {made} {head} {series} for {use}, {extra}",
)
_EXTRAS = ("Great Gift Idea", "New Edition", "With Care Guide", "Two Year Warranty")
_DESCRIPTIONS = (
    "{brand} makes this {plain} for people who use it every day. {first} {care}",
    "A {plain} for {use}: that is what we had in mind. {first} Questions? We answer within a day.",
    "{first} The {series} {head} comes in plain paper packaging. {care}",
    "",
)
_CARE = (
    "Wipe it with a damp cloth.",
    "Please read the leaflet before the first use.",
    "Small differences in shade are possible.",
)
#: The first kind of bullet calls the thing by its plain name, which a title need not.
_NAMING_BULLETS = (
    "What you get: one {plain} as pictured and our service",
    "The {plain} that suits {use}",
    "A {plain} made in small batches, {made} quality",
)
_OTHER_BULLETS = (
    "Suits {use}",
    "If you do not like it, send it back within 60 days",
    "Please compare the values on offer before you order",
    "Packed without plastic",
)
_ASKS = (
    "i am looking for a {thing}{traits}{options}",
    "i need a {thing}{traits}{options}",
    "find me a {thing}{traits}{options}",
    "i would like to buy a {thing}{traits}{options}",
    "please help me to get a {thing}{traits}{options}",
    "can you show me a {thing}{traits}{options}",
)
_OPTION_WORDS = {
    "color": ("in {}", "in the color {}", "and i want it in {}"),
    "size": ("in size {}", "and the size should be {}", "size {}"),
    "item package quantity": ("with a quantity of {}", "and i want {} in the package"),
    "style": ("in the style {}", "and it should be {}"),
    "scent": ("with {} scent", "and the scent should be {}"),
    "flavor name": ("with {} flavor", "that tastes of {}"),
    "pattern name": ("with a {} pattern", "and a {} on it"),
}


@dataclass(frozen=True, slots=True)
class Product:
    """One product: `told` are the traits that its title names, the others stand in its features."""

    department: Department
    ware: Ware
    brand: str
    series: str
    head: str
    made: str
    use: str
    traits: tuple[str, ...]
    told: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    price: float
    asin: str = ""


@dataclass(frozen=True, slots=True)
class Shop:
    """What the official files hold, for our own products.

    items, attributes, instructions: as items_shuffle, items_ins_v2 and items_human_ins.
    """

    items: tuple[dict[str, Any], ...]
    attributes: Mapping[str, dict[str, Any]]
    instructions: Mapping[str, list[dict[str, Any]]]


def generate(*, seed: int) -> Shop:
    """The whole shop; the same for the same seed."""
    items, attributes, instructions = [], {}, {}
    taken: set[str] = set()
    for department in DEPARTMENTS:
        for ware in department.wares:
            for number, size in enumerate(FAMILIES):
                rng = random.Random(stable_seed("family", seed, ware.query, number))
                family = _family(department, ware, size, rng)
                for place, product in enumerate(family):
                    product = replace(product, asin=_asin(seed, ware.query, number, place, taken))
                    items.append(_item(product, rng))
                    attributes[product.asin] = {"attributes": list(product.traits)}
                    # The dear one is what a goal's price cap is there to keep out.
                    if place < size - 1:
                        goal = _goal(product, family[0], rng)
                        instructions[product.asin] = [goal]
                        attributes[product.asin] |= _synthetic(product, goal)
    random.Random(stable_seed("order", seed)).shuffle(items)
    return Shop(tuple(items), attributes, instructions)


def _asin(seed: int, query: str, number: int, place: int, taken: set[str]) -> str:
    """Ten characters as an official one has, but never one of those, which start with B or 0-9."""
    for salt in range(100):
        found = "L" + stable_hash("asin", seed, query, number, place, salt, length=9).upper()
        if found not in taken:
            taken.add(found)
            return found
    raise AssertionError("a hundred equal digests")


def _family(department: Department, ware: Ware, size: int, rng: random.Random) -> list[Product]:
    """The base, then one that has another attribute, for families of four one with other values on
    offer, and last a dear one.
    """
    brand, series = "".join(map(rng.choice, _BRANDS)), rng.choice(_SERIES)
    low, high = ware.price
    traits = tuple(rng.sample(ware.traits, rng.randint(*TRAITS_EACH)))
    base = Product(
        department,
        ware,
        brand,
        series,
        rng.choice(ware.heads),
        rng.choice(ware.made_of),
        rng.choice(ware.uses),
        traits,
        traits[: rng.randint(1, 2)],
        {name: _offer(values, rng) for name, values in ware.choices.items()},
        _price(rng.uniform(low, (low + high) / 2), rng),
    )
    others = [_other_trait(base, rng)]
    if size > 3:
        others.append(_other_values(base, rng))
    others.append(replace(base, price=_price(base.price * rng.uniform(*DEARER), rng)))
    return [base, *others]


def _offer(values: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Some of `values`, in their order."""
    count = min(len(values), rng.randint(*VALUES_EACH))
    return tuple(values[i] for i in sorted(rng.sample(range(len(values)), count)))


def _other_trait(base: Product, rng: random.Random) -> Product:
    """`base` with one of its traits replaced by one that it lacks."""
    lost = rng.choice(base.traits)
    gained = rng.choice([t for t in base.ware.traits if t not in base.traits])
    traits = tuple(gained if t == lost else t for t in base.traits)
    told = tuple(gained if t == lost else t for t in base.told)
    return replace(base, traits=traits, told=told, price=_price(base.price, rng))


def _other_values(base: Product, rng: random.Random) -> Product:
    """`base` with other values of one option, as different as the pool allows."""
    name = max(base.choices, key=lambda n: len(base.ware.choices[n]) - len(base.choices[n]))
    pool = base.ware.choices[name]
    fresh = [value for value in pool if value not in base.choices[name]]
    offered = _offer(fresh, rng) if len(fresh) > 1 else _offer(pool, rng)
    return replace(base, choices={**base.choices, name: offered}, price=_price(base.price, rng))


def _price(about: float, rng: random.Random) -> float:
    return max(3, round(about * rng.uniform(0.95, 1.05))) + rng.choice((0.0, 0.49, 0.95, 0.99))


def _item(product: Product, rng: random.Random) -> dict[str, Any]:
    """The product as a line of items_shuffle has it."""
    ware = product.ware
    words = {
        "brand": product.brand,
        "series": product.series,
        "made": product.made,
        "head": product.head,
        "plain": ware.plain,
        "use": product.use,
        "traits": ", ".join(trait.title() for trait in product.told),
        "extra": rng.choice(_EXTRAS),
        "care": rng.choice(_CARE),
        "first": f"{SAYS[product.traits[0]][0]}.",
    }
    said = [rng.choice(SAYS[trait]) for trait in product.traits]
    naming, other = (rng.choice(b).format_map(words) for b in (_NAMING_BULLETS, _OTHER_BULLETS))
    ends = (naming, other) if rng.random() < 0.5 else (other, naming)
    bullets = [ends[0], *rng.sample(said, len(said)), ends[1]]
    dear = product.price * rng.uniform(1.1, 1.4)
    spread = f"${dear:.2f}" if rng.random() < 0.12 else ""
    return {
        "name": " ".join(rng.choice(_TITLES).format_map(words).replace(" ,", ",").split()),
        "full_description": " ".join(rng.choice(_DESCRIPTIONS).format_map(words).split()),
        "pricing": f"${product.price:.2f}{spread}",
        "images": [f"{product.asin}.jpg"],
        "product_category": f"{product.department.crumb} › {ware.shelf}",
        "average_rating": "",
        "small_description": bullets,
        "customization_options": {
            name: [{"value": value, "image": None} for value in values]
            for name, values in product.choices.items()
        },
        "asin": product.asin,
        "category": product.department.name,
        "query": ware.query,
        "page": 1,
    }


def _goal(product: Product, base: Product, rng: random.Random) -> dict[str, Any]:
    """A person's wish for `product`: a line of items_human_ins."""
    special = [t for t in product.traits if t not in base.traits]
    others = [t for t in product.traits if t not in special]
    wanted = [*special, *rng.sample(others, len(others))][: rng.choice((1, 2, 2))]
    rng.shuffle(wanted)
    picked = {}
    for name, values in product.choices.items():
        own = [value for value in values if value not in base.choices[name]]
        if own or rng.random() < 0.85:
            picked[name] = rng.choice(own or values)
    picked = dict(rng.sample(sorted(picked.items()), min(2, len(picked))))
    return {
        "asin": product.asin,
        "instruction": _ask(product, wanted, picked, rng),
        "attributes": list(product.traits),
        "options": [f"{name}: {value}" for name, value in picked.items()],
        "instruction_attributes": wanted,
        "instruction_options": list(picked.values()),
        "assignment_id": "",
        "worker_id": "",
    }


def _ask(
    product: Product, wanted: Sequence[str], picked: Mapping[str, str], rng: random.Random
) -> str:
    called = product.head.lower()
    if called.endswith("s"):
        called = f"pair of {called}" if "pair of" in product.ware.plain else f"set of {called}"
    thing = rng.choice((product.ware.plain, product.ware.plain, called))
    aims = [trait for trait in wanted if trait in _FOR]
    is_so = [trait for trait in wanted if trait not in _HAD | _FOR]
    has = [trait for trait in wanted if trait in _HAD]
    traits = "".join(f" for {trait}" for trait in aims)
    if is_so:
        traits += rng.choice((" that is ", " which is ")) + " and ".join(is_so)
    if has:
        joined = " and ".join(has)
        traits += f" and has {joined}" if is_so else rng.choice((" with ", " that has ")) + joined
    said = [rng.choice(_OPTION_WORDS[name]).format(value) for name, value in picked.items()]
    options = "".join(f", {text}" if i else f" {text}" for i, text in enumerate(said))
    text = rng.choice(_ASKS).format(thing=thing, traits=traits, options=options)
    return re.sub(r"\ba (?=[aeio])", "an ", text)


def _synthetic(product: Product, goal: Mapping[str, Any]) -> dict[str, Any]:
    """The product's instruction for synthetic goals, as items_ins_v2 has it."""
    wanted = goal["instruction_attributes"]
    text = f"Show me {', '.join(wanted)} {product.ware.query}"
    return {"instruction": text, "instruction_attributes": wanted}


def with_nouns(shop: Shop, nouns: Mapping[str, Sequence[str]]) -> Shop:
    """`shop` with the nouns of every title, as the official reward counts them: title → nouns.

    So playing in it needs no tagger.
    """
    items = tuple(item | {"title_nouns": list(nouns[item["name"]])} for item in shop.items)
    return replace(shop, items=items)


def files(shop: Shop) -> dict[str, bytes]:
    """File name → content, in the official form; the same bytes for the same shop."""
    return {
        "items_shuffle.json.gz": _packed(shop.items),
        "items_ins_v2.json.gz": _packed(dict(sorted(shop.attributes.items()))),
        "items_human_ins.json.gz": _packed(dict(sorted(shop.instructions.items()))),
    }


def _packed(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)

"""A generator of our own shop: seeded products and goals in the official file form.

The shop is for use without the official data. Its products come in families: one is the base, each
other differs from it in one respect (an attribute, the values on offer, the price). So a search
lists near misses, and only reading shows which product fits.
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
from tools.webshop.product_types import DEPARTMENTS, TRAIT_PHRASES, Department, ProductType

#: The number of products in each family of a type of product.
FAMILIES = (3, 3, 4, 3)
TRAITS_EACH = (2, 3)
VALUES_EACH = (3, 6)
#: By which factor the expensive one of a family costs more.
PRICE_FACTOR = (1.5, 2.1)
#: Traits that say what a thing is for.
_PURPOSES = frozenset(("living room", "dry skin", "sensitive skin", "carry on"))
#: Traits that are parts of a thing; all others are qualities of it.
_PART_LIST = """usb port, motion sensor, memory foam, zipper closure, solid wood, storage space,
lumbar support, high waist, tummy control, side pockets, drawstring closure, arch support,
rubber sole, ankle support, closed toe, wide width, laptop compartment, water bottle pocket,
hanging hook, stereo sound, dual alarm, wireless charging, tempered glass, hyaluronic acid,
coconut oil, resealable bag, slim fit, loose fit, long sleeve, fast charging, warm white,
double wall"""
_PARTS = frozenset(trait.strip() for trait in _PART_LIST.split(","))
_BRANDS = (
    ("Vel", "Nor", "Hal", "Bri", "Cas", "Dor", "Elm", "Fen", "Gal", "Jun", "Kes", "Lor", "Tam"),
    ("mora", "kest", "vinde", "dane", "fjell", "wick", "orin", "lume", "haven", "stead", "tique"),
)
_SERIES = ("Aria", "Nordic", "Everyday", "Studio", "Classic", "Urban", "Breeze", "Heritage", "")
_TITLES = (
    "{brand} {series} {variant} {head}, {traits} for {use}",
    "{brand} {variant} {head} for {use} - {traits}",
    "{variant} {head} by {brand} {series}, {traits}, Ideal for {use}",
    "{brand} {traits} {variant} {head} {series} for {use}, {extra}",
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
#: Bullets that name the thing in everyday words, which a title need not.
_NAMING_BULLETS = (
    "What you get: one {plain} as pictured and our service",
    "The {plain} that suits {use}",
    "A {plain} made in small batches, {variant} quality",
)
_OTHER_BULLETS = (
    "Suits {use}",
    "If you do not like it, send it back within 60 days",
    "Please compare the values on offer before you order",
    "Packed without plastic",
)
_REQUESTS = (
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
    """One product: its title names `title_traits`, its features the other traits."""

    department: Department
    type: ProductType
    brand: str
    series: str
    head: str
    variant: str
    use: str
    traits: tuple[str, ...]
    title_traits: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    price: float
    asin: str = ""


@dataclass(frozen=True, slots=True)
class Shop:
    """Our own products as the contents of the official files.

    items, attributes, instructions: as items_shuffle, items_ins_v2 and items_human_ins.
    """

    items: tuple[dict[str, Any], ...]
    attributes: Mapping[str, dict[str, Any]]
    instructions: Mapping[str, list[dict[str, Any]]]


def generate(*, seed: int) -> Shop:
    """Return the whole shop; the same for the same seed."""
    items, attributes, instructions = [], {}, {}
    used_asins: set[str] = set()
    for department in DEPARTMENTS:
        for product_type in department.product_types:
            for number, size in enumerate(FAMILIES):
                rng = random.Random(stable_seed("family", seed, product_type.query, number))
                family = _family(department, product_type, size, rng)
                for place, product in enumerate(family):
                    product = replace(
                        product, asin=_asin(seed, product_type.query, number, place, used_asins)
                    )
                    items.append(_item(product, rng))
                    attributes[product.asin] = {"attributes": list(product.traits)}
                    # The expensive one is what a goal's price cap excludes.
                    if place < size - 1:
                        goal = _goal(product, family[0], rng)
                        instructions[product.asin] = [goal]
                        attributes[product.asin] |= _synthetic(product, goal)
    random.Random(stable_seed("order", seed)).shuffle(items)
    return Shop(tuple(items), attributes, instructions)


def _asin(seed: int, query: str, number: int, place: int, used_asins: set[str]) -> str:
    """Return ten characters like an official asin, but none: those start with B or a digit."""
    for salt in range(100):
        asin = "L" + stable_hash("asin", seed, query, number, place, salt, length=9).upper()
        if asin not in used_asins:
            used_asins.add(asin)
            return asin
    raise AssertionError("a hundred equal digests")


def _family(
    department: Department, product_type: ProductType, size: int, rng: random.Random
) -> list[Product]:
    """Return the products of a family, the base first.

    Then comes one with another trait, in families of four one with other values on offer, and last
    an expensive one.
    """
    brand, series = "".join(map(rng.choice, _BRANDS)), rng.choice(_SERIES)
    lowest, highest = product_type.price
    traits = tuple(rng.sample(product_type.traits, rng.randint(*TRAITS_EACH)))
    base = Product(
        department,
        product_type,
        brand,
        series,
        rng.choice(product_type.heads),
        rng.choice(product_type.variants),
        rng.choice(product_type.uses),
        traits,
        traits[: rng.randint(1, 2)],
        {name: _offer(values, rng) for name, values in product_type.choices.items()},
        _price(rng.uniform(lowest, (lowest + highest) / 2), rng),
    )
    relatives = [_other_trait(base, rng)]
    if size > 3:
        relatives.append(_other_values(base, rng))
    relatives.append(replace(base, price=_price(base.price * rng.uniform(*PRICE_FACTOR), rng)))
    return [base, *relatives]


def _offer(values: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Return some of `values`, in their order."""
    count = min(len(values), rng.randint(*VALUES_EACH))
    return tuple(values[i] for i in sorted(rng.sample(range(len(values)), count)))


def _other_trait(base: Product, rng: random.Random) -> Product:
    """Return `base` with one of its traits replaced by one that it lacks."""
    old = rng.choice(base.traits)
    new = rng.choice([t for t in base.type.traits if t not in base.traits])
    traits = tuple(new if t == old else t for t in base.traits)
    title_traits = tuple(new if t == old else t for t in base.title_traits)
    return replace(base, traits=traits, title_traits=title_traits, price=_price(base.price, rng))


def _other_values(base: Product, rng: random.Random) -> Product:
    """Return `base` with other values of one option, as different as the pool allows."""
    name = max(base.choices, key=lambda n: len(base.type.choices[n]) - len(base.choices[n]))
    pool = base.type.choices[name]
    unused = [value for value in pool if value not in base.choices[name]]
    offer = _offer(unused, rng) if len(unused) > 1 else _offer(pool, rng)
    return replace(base, choices={**base.choices, name: offer}, price=_price(base.price, rng))


def _price(estimate: float, rng: random.Random) -> float:
    return max(3, round(estimate * rng.uniform(0.95, 1.05))) + rng.choice((0.0, 0.49, 0.95, 0.99))


def _item(product: Product, rng: random.Random) -> dict[str, Any]:
    """Return the product as an entry of items_shuffle."""
    product_type = product.type
    words = {
        "brand": product.brand,
        "series": product.series,
        "variant": product.variant,
        "head": product.head,
        "plain": product_type.plain,
        "use": product.use,
        "traits": ", ".join(trait.title() for trait in product.title_traits),
        "extra": rng.choice(_EXTRAS),
        "care": rng.choice(_CARE),
        "first": f"{TRAIT_PHRASES[product.traits[0]][0]}.",
    }
    phrases = [rng.choice(TRAIT_PHRASES[trait]) for trait in product.traits]
    forms = (_NAMING_BULLETS, _OTHER_BULLETS)
    naming_bullet, other_bullet = (rng.choice(form).format_map(words) for form in forms)
    outer = (naming_bullet, other_bullet) if rng.random() < 0.5 else (other_bullet, naming_bullet)
    bullets = [outer[0], *rng.sample(phrases, len(phrases)), outer[1]]
    upper = product.price * rng.uniform(1.1, 1.4)
    range_end = f"${upper:.2f}" if rng.random() < 0.12 else ""
    return {
        "name": " ".join(rng.choice(_TITLES).format_map(words).replace(" ,", ",").split()),
        "full_description": " ".join(rng.choice(_DESCRIPTIONS).format_map(words).split()),
        "pricing": f"${product.price:.2f}{range_end}",
        "images": [f"{product.asin}.jpg"],
        "product_category": f"{product.department.crumb} › {product_type.shelf}",
        "average_rating": "",
        "small_description": bullets,
        "customization_options": {
            name: [{"value": value, "image": None} for value in values]
            for name, values in product.choices.items()
        },
        "asin": product.asin,
        "category": product.department.name,
        "query": product_type.query,
        "page": 1,
    }


def _goal(product: Product, base: Product, rng: random.Random) -> dict[str, Any]:
    """Return a shopper's request for `product` as an entry of items_human_ins."""
    special = [t for t in product.traits if t not in base.traits]
    common = [t for t in product.traits if t not in special]
    traits = [*special, *rng.sample(common, len(common))][: rng.choice((1, 2, 2))]
    rng.shuffle(traits)
    options = {}
    for name, values in product.choices.items():
        distinctive = [value for value in values if value not in base.choices[name]]
        if distinctive or rng.random() < 0.85:
            options[name] = rng.choice(distinctive or values)
    options = dict(rng.sample(sorted(options.items()), min(2, len(options))))
    return {
        "asin": product.asin,
        "instruction": _ask(product, traits, options, rng),
        "attributes": list(product.traits),
        "options": [f"{name}: {value}" for name, value in options.items()],
        "instruction_attributes": traits,
        "instruction_options": list(options.values()),
        "assignment_id": "",
        "worker_id": "",
    }


def _ask(
    product: Product, traits: Sequence[str], options: Mapping[str, str], rng: random.Random
) -> str:
    """Return a sentence that asks for `product` by its name, these traits and these options."""
    head = product.head.lower()
    if head.endswith("s"):
        head = f"pair of {head}" if "pair of" in product.type.plain else f"set of {head}"
    thing = rng.choice((product.type.plain, product.type.plain, head))
    purposes = [trait for trait in traits if trait in _PURPOSES]
    qualities = [trait for trait in traits if trait not in _PARTS | _PURPOSES]
    parts = [trait for trait in traits if trait in _PARTS]
    trait_text = "".join(f" for {trait}" for trait in purposes)
    if qualities:
        trait_text += rng.choice((" that is ", " which is ")) + " and ".join(qualities)
    if parts:
        verb = " and has " if qualities else rng.choice((" with ", " that has "))
        trait_text += verb + " and ".join(parts)
    phrases = [rng.choice(_OPTION_WORDS[name]).format(value) for name, value in options.items()]
    option_text = "".join(f", {text}" if i else f" {text}" for i, text in enumerate(phrases))
    request = rng.choice(_REQUESTS).format(thing=thing, traits=trait_text, options=option_text)
    return re.sub(r"\ba (?=[aeio])", "an ", request)


def _synthetic(product: Product, goal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the product's instruction for synthetic goals, as items_ins_v2 has it."""
    traits = goal["instruction_attributes"]
    text = f"Show me {', '.join(traits)} {product.type.query}"
    return {"instruction": text, "instruction_attributes": traits}


def with_nouns(shop: Shop, nouns: Mapping[str, Sequence[str]]) -> Shop:
    """Return `shop` with the nouns of every title, as the official reward counts them.

    nouns: title → its nouns. With them, playing in the shop needs no tagger.
    """
    items = tuple(item | {"title_nouns": list(nouns[item["name"]])} for item in shop.items)
    return replace(shop, items=items)


def files(shop: Shop) -> dict[str, bytes]:
    """Return file name → content, in the official form; the same bytes for the same shop."""
    return {
        "items_shuffle.json.gz": _packed(shop.items),
        "items_ins_v2.json.gz": _packed(dict(sorted(shop.attributes.items()))),
        "items_human_ins.json.gz": _packed(dict(sorted(shop.instructions.items()))),
    }


def _packed(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)

"""Goals, created from the products' instructions as in the official code.

Prices within a range and price caps are drawn from our own generator, which is seeded before the
first draw. The official server seeds only before it shuffles the goals, so that its prices differ
from start to start. With its seed, 233, ours are those that it would draw if seeded first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, overload

import numpy as np

from ldm.envs.webshop.catalogue import Instruction, Product

#: The official seed.
SEED = 233
#: The value of `Goal.price_cap` if there is no cap.
NO_CAP = 1_000_000.0
_STEPS = [10.0 * i for i in range(1, 100)]

#: A requested option: (name, value) in a synthetic goal, only the value in a human one.
RequestedOption = tuple[str, str] | str


class Products(Protocol):
    """Products by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Product: ...


@dataclass(frozen=True, slots=True)
class Goal:
    """A purchase to make.

    product: the one that fits exactly. price_cap: in dollars, NO_CAP if any price is acceptable.
    """

    product: Product
    text: str
    attributes: tuple[str, ...]
    options: tuple[RequestedOption, ...]
    price_cap: float


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of products, and the caps drawn for the instructions that have goals.

    amounts: dollars, in the order of the products. The others have one entry per instruction:
    products, instructions: position of the product, and of the instruction within it;
    caps: dollars; counts: the number of goals that it yields.
    """

    amounts: np.ndarray
    products: np.ndarray
    instructions: np.ndarray
    caps: np.ndarray
    counts: np.ndarray


class Drawer:
    """Draw prices and caps for a stream of products; all prices first, as in the official code."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._amounts: list[float] = []
        self._goal_counts: list[tuple[int, int, int]] = []

    def take(self, product: Product, amount: float | None = None) -> None:
        """Draw the price of the next product, or use `amount`."""
        low, *high = product.prices
        position = len(self._amounts)
        if amount is None:
            amount = self._random.uniform(low, *high) if high else low
        self._amounts.append(amount)
        for number, instruction in enumerate(product.instructions):
            self._goal_counts.append((position, number, _count(product, instruction)))

    def finish(self) -> Prices:
        """Draw the caps, now that all prices are known."""
        caps = [self._cap(self._amounts[position]) for position, _, _ in self._goal_counts]
        table = np.array(self._goal_counts, dtype=np.int32).reshape(-1, 3)
        return Prices(
            np.array(self._amounts, dtype=np.float64),
            table[:, 0].copy(),
            table[:, 1].copy(),
            np.array(caps, dtype=np.float64),
            table[:, 2].copy(),
        )

    def _cap(self, price: float) -> float:
        above = [step for step in _STEPS if step > price][:4]
        return max(self._random.sample(above, 2)) if len(above) >= 2 else NO_CAP


def draw(products: Iterable[Product], seed: int = SEED) -> Prices:
    """Return the prices and caps of `products`."""
    drawer = Drawer(seed)
    for product in products:
        drawer.take(product)
    return drawer.finish()


def shuffled(number: int, seed: int = SEED) -> np.ndarray:
    """Return the position before the shuffle of each of `number` goals (int32)."""
    order = list(range(number))
    random.Random(seed).shuffle(order)
    return np.array(order, dtype=np.int32)


class Goals(Sequence[Goal]):
    """All goals; with the official shuffle, the index is the official session number.

    A goal is built on access, as the 1.18 million products have millions of goals.
    """

    def __init__(self, products: Products, prices: Prices, order: np.ndarray | None = None) -> None:
        """Take the `order`, each goal's position before the shuffle; None does not shuffle."""
        self._products = products
        self._prices = prices
        self._order = order
        self._ends = np.cumsum(prices.counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @overload
    def __getitem__(self, number: int) -> Goal: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Goal, ...]: ...
    def __getitem__(self, number: int | slice) -> Goal | tuple[Goal, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        if not -len(self) <= number < len(self):
            raise IndexError(f"goal {number} of {len(self)}")
        entry, place = self._entry(number % len(self))
        prices = self._prices
        product = self._products[int(prices.products[entry])]
        instruction = product.instructions[int(prices.instructions[entry])]
        return _goal(product, instruction, place, float(prices.caps[entry]))

    def source(self, number: int) -> int:
        """Return the position of the product that goal `number` asks for."""
        return int(self._prices.products[self._entry(number)[0]])

    def sources(self) -> np.ndarray:
        """Return `source` of all goals (int32)."""
        positions = np.repeat(self._prices.products, self._prices.counts)
        return positions if self._order is None else positions[self._order]

    def _entry(self, number: int) -> tuple[int, int]:
        """Return the index of the instruction, and the number of the goal within it."""
        before = number if self._order is None else int(self._order[number])
        entry = int(np.searchsorted(self._ends, before, side="right"))
        return entry, before - int(self._ends[entry] - self._prices.counts[entry])


def _count(product: Product, instruction: Instruction) -> int:
    if instruction.options is not None:
        return 1
    return prod(len(values) for _, values in product.options)


def _goal(product: Product, instruction: Instruction, place: int, cap: float) -> Goal:
    price = "" if cap == NO_CAP else f", and price lower than {cap:.2f} dollars"
    if instruction.options is not None:
        text = instruction.text.strip(".") + price
        return Goal(product, text, instruction.attributes, instruction.options, cap)
    options: list[tuple[str, str]] = []
    # The last option changes fastest, as in itertools.product.
    for name, values in sorted(product.options, reverse=True):
        place, choice = divmod(place, len(values))
        options.append((name, values[choice]))
    options.reverse()
    requests = ", and ".join(f"{name}: {value}" for name, value in options)
    text = instruction.text + (f" with {requests}" if requests else "") + price
    return Goal(product, text, instruction.attributes, tuple(options), cap)

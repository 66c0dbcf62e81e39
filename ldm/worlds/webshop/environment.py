"""The WebShop environment: splits, tasks, observations and rewards on top of the site."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, overload

import numpy as np

from ldm.envs._base import ReplayedEnvironment, unknown_split, unknown_task
from ldm.envs.metadata import declared
from ldm.errors import LdmError
from ldm.parallel import cached
from ldm.types import Card, Positive, Task, TimeStep, Trajectory, stable_seed
from ldm.worlds.lucene.search import TOP
from ldm.worlds.webshop import pages, reward
from ldm.worlds.webshop.catalogue import Catalogue, Files, Product, open_catalogue
from ldm.worlds.webshop.pages import BOUGHT, CLICKED, INVALID, Mode, Node, Session, render

CARD, METADATA = declared(__file__)
(KIND,) = CARD.kinds


#: Searches whose results are cached.
CACHED_SEARCHES = 2_000


class World:
    """A catalogue with its goals, seen as a `pages.Shop`. It holds no state of any session."""

    def __init__(self, catalogue: Catalogue, titles: reward.Titles | None = None) -> None:
        self.catalogue = catalogue
        self.goals = catalogue.goals
        self._titles = titles or reward.Titles()
        self._results: dict[str, tuple[int, ...]] = {}

    def start(self, number: int) -> Session:
        """Return a fresh session, on the search page."""
        return Session(number, self.goals[number].text)

    def product(self, asin: str) -> Product:
        """Return the product that a page shows under `asin`."""
        position = self.catalogue.position(asin)
        if position is None:
            raise KeyError(asin)
        return self.catalogue[position]

    def listed(self, position: int) -> Product:
        """Return the product at a position of the catalogue, as results list it."""
        return self.catalogue[position]

    def search(self, query: str, session: Session) -> tuple[int, ...] | None:
        """Return positions of products, best first; None if the official site fails.

        Four first words ask for something other than a search (quirk 20). <r>, random products, is
        drawn again at each visit there, and once for a session and query here.
        """
        first, *arguments = query.split(" ")
        match first:
            case "<r>":
                seed = stable_seed(self.catalogue.digest, session.number, ascii(query))
                draw = random.Random(seed)
                return tuple(draw.sample(range(len(self.catalogue)), min(TOP, len(self.catalogue))))
            case "<a>":
                return None
            case "<c>":
                return (
                    self.catalogue.having("categories", arguments[0].strip()) if arguments else None
                )
            case "<q>":
                return self.catalogue.having("queries", " ".join(arguments).strip())
        search = self.catalogue.index.search
        return cached(self._results, query, lambda: search(query), CACHED_SEARCHES)

    def reward(self, session: Session) -> float:
        """Return the reward of buying the session's product with its options, in [0, 1]."""
        product = self.product(session.asin)
        position = self.catalogue.position(session.asin)
        price = float(self.catalogue.amounts[position])
        goal = self.goals[session.number]
        return reward.reward(goal, product, dict(session.options), price, self._titles)


ENV = "webshop"
#: Increased when the same catalogue yields other texts, rewards or splits.
VERSION = "1"
Range = tuple[int, int | None]
#: Session numbers of the splits, as in the official baselines; None is the end.
OFFICIAL_SPLITS: dict[str, Range] = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
#: The same for the small catalogue that ships with the package.
OWN_SPLITS: dict[str, Range] = {"demo_test": (0, 100), "demo_train": (100, None)}
#: Training split → splits whose products it must not ask for.
_HELD_BACK = {"train": ("test", "dev"), "demo_train": ("demo_test",)}
#: The folder of the small catalogue.
OWN_DATA = Path(__file__).parent / "demo"


@dataclass(frozen=True, slots=True)
class WebShopOptions:
    """Options of WebShop.

    goals: synthetic and human goals are different tasks. observation: "bracket" is the compact form
    of the published prompts, "page" that of LDM²'s, where the page stays after a chosen option or a
    refusal (Table 5); "text" and "text_rich" are the official ones. page_size: officially
    10. seed: of prices, price caps and the order of the goals; officially 233. cache: without one,
    catalogues are compiled again each time.
    """

    data: Annotated[str | None, "Folder with the official files"] = None
    goals: Annotated[Literal["synthetic", "human"], "Origin of the goals"] = "synthetic"
    num_products: Annotated[Positive | None, "Read only the first so many products"] = None
    observation: Annotated[Mode, "Form of the pages"] = "bracket"
    page_size: Annotated[Positive, "Products on a page of results"] = pages.PER_PAGE
    admissible: Annotated[bool, "List the clicks, and the search for the instruction"] = True
    seed: Annotated[int, "Random seed of prices and of the order of goals"] = 233
    cache: Annotated[str | None, "Folder for compiled catalogues"] = None


class WebShop(ReplayedEnvironment):
    """Shopping by instruction on a simulated site (Yao et al., NeurIPS 2022).

    The reward, in [0, 1], is given for the purchase, which ends the task; before that it is 0.
    """

    card: Card = CARD
    paper = "WebShop, arXiv 2207.01206"
    needs = "nothing for the demo splits; else the products (ldm data webshop)"
    default_split = "test"
    train_splits = ("train", "demo_train")
    splits = (*OFFICIAL_SPLITS, *OWN_SPLITS)
    metadata = METADATA
    Options = WebShopOptions
    options: WebShopOptions
    _world: World
    _session: Session
    _page: tuple[Node, ...]
    _there: Mapping[str, Node]

    def __init__(self, options: WebShopOptions | None = None, world: World | None = None) -> None:
        """Create the environment; `world` replaces the one of the official splits."""
        super().__init__(options)
        self._worlds: dict[bool, World] = {} if world is None else {False: world}
        self._listed: dict[str, Sequence[Task]] = {}

    def protocol(self) -> Mapping[str, Any]:
        """Return the conditions of scores: goals, prices, caps, observations, reward."""
        options = self.options
        own = {split in OWN_SPLITS for split in self._listed}
        worlds = {name: self._open(name) for name in sorted(own)}
        return {
            "environment": ENV,
            "version": VERSION,
            "goals": options.goals,
            "observation": options.observation,
            "page_size": options.page_size,
            "admissible": options.admissible,
            "reward": "official",
            "data": {
                "own" if name else "official": w.catalogue.digest for name, w in worlds.items()
            },
            "titles": sorted({self._titles_of(world) for world in worlds.values()}),
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split in the order of their session numbers.

        Raise LdmError for an unknown split and for missing or damaged data.
        """
        if split not in self._listed:
            if split not in self.splits:
                raise unknown_split("WebShop", split, self.splits)
            splits = OWN_SPLITS if split in OWN_SPLITS else OFFICIAL_SPLITS
            world = self._open(split in OWN_SPLITS)
            numbers = _numbers(world.goals.sources(), splits, split)
            if not len(numbers):
                raise LdmError(
                    f"WebShop's split {split!r} has no goal: the catalogue has only "
                    f"{len(world.goals)}.",
                    "Use another split, or a larger catalogue.",
                )
            self._listed[split] = _Tasks(world, split, numbers)
        return self._listed[split]

    def _start(self, task: Task) -> TimeStep:
        """Start `task` on the search page."""
        split, _, number = task.id.partition("/")
        self._world = self._open(split in OWN_SPLITS)
        if not number.isdecimal() or int(number) >= len(self._world.goals):
            raise unknown_task("WebShop", task)
        self._session = self._world.start(int(number))
        return self._answer(self._session)

    def _act(self, action: str) -> TimeStep:
        """Execute search[…] or click[…]; anything else changes nothing."""
        before = self._session
        if before.page == "done":
            raise RuntimeError("no task is running: call reset first")
        after, valid = pages.step(before, action, self._there, self._world)
        self._session = after
        if after.page == "done":
            return TimeStep(BOUGHT, reward=after.score or 0.0, done=True, admissible=())
        return self._answer(after, before, valid=valid)

    def as_shown(self, recorded: Trajectory) -> Trajectory:
        """Return an episode recorded in brackets with the whole pages that `page` shows."""
        return pages.with_pages(recorded) if self.options.observation == "page" else recorded

    def prepare(self) -> None:
        """Load rapidfuzz and, for official data, spaCy's model, which purchases need.

        Loaded beside threads that receive replies, spaCy breaks them: it imports `httpx`, which the
        `openai` package looks up among the modules, even if it is half-imported.
        """
        reward.alike("", "")
        if self.options.data:
            with suppress(LdmError):  # the purchase that needs it raises the error
                reward.load_parser()

    @staticmethod
    def _titles_of(world: World) -> str:
        return "catalogue" if world.catalogue.carries_nouns else reward.parser_version()

    def _open(self, own: bool) -> World:
        """Return the world of our own splits, or of the official ones."""
        if own not in self._worlds:
            options = self.options
            if not own and not options.data:
                raise LdmError(
                    "WebShop's official splits need the official files, and no data path is set.",
                    "Set WEBSHOP_DATA to the folder that holds items_shuffle.json (download it "
                    "with: ldm data webshop --to FOLDER), or use the split demo_test, which ships "
                    "with the package.",
                )
            folder = OWN_DATA if own else Path(str(options.data))
            files = Files.find(folder, human=options.goals == "human")
            limit = None if own else options.num_products
            cache = Path(options.cache) if options.cache else None
            catalogue = open_catalogue(files, limit=limit, seed=options.seed, cache=cache)
            if not catalogue.carries_nouns:
                reward.check_parser()  # fail now rather than at the first purchase
            self._worlds[own] = World(catalogue)
        return self._worlds[own]

    def _answer(
        self, session: Session, before: Session | None = None, *, valid: bool = True
    ) -> TimeStep:
        if valid:
            self._page = pages.nodes(session, self._world, self.options.page_size)
            self._there = pages.clickables(self._page)
        observation = self._observation(session, before, valid)
        admissible = _admissible(session, self._there) if self.options.admissible else None
        return TimeStep(observation, admissible=admissible, valid=valid)

    def _observation(self, session: Session, before: Session | None, valid: bool) -> str:
        if self.options.observation == "bracket" and before is not None:
            if not valid:
                return INVALID
            if before.page == session.page == "item_page":
                # On a product's page, only choosing an option stays on that page.
                return CLICKED.format(session.options[-1][1])
        page = render(session, self._page, self.options.observation)
        return page if valid or self.options.observation != "page" else f"{page}\n{INVALID}"


class _Tasks(Sequence[Task]):
    """The tasks of a split, created on access."""

    def __init__(self, world: World, split: str, numbers: np.ndarray) -> None:
        self._world = world
        self._split = split
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        if isinstance(index, slice):
            return tuple(self._task(int(number)) for number in self._numbers[index])
        return self._task(int(self._numbers[index]))

    def _task(self, number: int) -> Task:
        goal = self._world.goals[number]
        name = f"{self._split}/{number}"
        return Task(name, ENV, self._split, goal.text, KIND, source=goal.product.asin)


def _numbers(sources: np.ndarray, splits: Mapping[str, Range], split: str) -> np.ndarray:
    """Return the session numbers of a split. sources: the product of each goal."""
    chosen = np.arange(*slice(*splits[split]).indices(len(sources)))
    held_back = [sources[slice(*splits[other])] for other in _HELD_BACK.get(split, ())]
    if held_back:
        chosen = chosen[~np.isin(sources[chosen], np.concatenate(held_back))]
    return chosen


def _admissible(session: Session, there: Mapping[str, Node]) -> tuple[str, ...]:
    """Return every effective click; on the search page, the search for the instruction.

    Searches cannot be listed, as any text can be searched for; that one represents them.
    """
    if session.page == "index":
        return (f"search[{session.instruction}]",)
    clicks = (_click(node.text) for node in there.values())
    return tuple(action for action in clicks if action)


@lru_cache(maxsize=100_000)
def _click(text: str) -> str:
    """Return the click on `text`, "" if the grammar cannot express it (quirks 21, 22)."""
    action = f"click[{text}]"
    possible = pages.parse(action) == ("click", text.lower()) and text.lower() != pages.SEARCH
    return action if possible else ""

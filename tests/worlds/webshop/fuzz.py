"""Random shopping: `walk` plays sessions of random actions and digests all that it sees.

    python -m tests.worlds.webshop.fuzz FOLDER [SESSIONS] [ACTIONS]

plays that many (1,000 sessions of 100 actions each) on the catalogue in FOLDER and prints the
digest, which must not depend on PYTHONHASHSEED.
"""

import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ldm.types import TimeStep, stable_seed
from ldm.worlds.webshop import WebShop, WebShopOptions
from ldm.worlds.webshop.catalogue import Files, open_catalogue
from ldm.worlds.webshop.environment import World
from ldm.worlds.webshop.pages import Mode
from ldm.worlds.webshop.reward import Titles

MODES: tuple[Mode, ...] = ("bracket", "text", "text_rich")
#: Pieces of actions that are likely to upset something.
ODD = (
    "", " ", "search", "click", "search[]", "click[]", "[", "]", "search[[x]]", "click[search]",
    "search[ ]", "search[the of]", "search[<r>]", "search[<r> x]", "search[<r> \ud800]",
    "search[<c> garden]", "search[<c>]", "search[<q> lamps]", "search[<q>]", "search[<a> x]",
    "search[<a>]",
    "search[search_results]", "search[item_page x]", "search[item_sub_page lamp]", "search[done]",
    'search["black"]', "search[a\nb]", "search[\x00]", "search[\ud800]", "search[%s {0} {{x}}]",
    "search[" + "lamp " * 500 + "]", "search[東京 ★ 👨\u200d💼]", "click[Next >]", "click[< Prev]",
    "click[Back to Search]", "click[attributes]", "click[reviews]", "click[B000000000]",
    "buy now", "click[buy now] please", " click[buy now]", "Click[Buy Now]", "exit[]",
)  # fmt: skip


def act(rng: random.Random, now: TimeStep, goal: str) -> str:
    """Half of the time something possible, else something odd or a search of random words."""
    choice = rng.random()
    actions = [
        a for a in now.admissible or () if a.lower() != "click[buy now]" or rng.random() < 0.1
    ]
    if choice < 0.5 and actions:
        return rng.choice(actions)
    if choice < 0.7:
        return rng.choice(ODD)
    if choice < 0.9:
        return f"search[{' '.join(rng.sample(goal.split(), k=min(4, len(goal.split()))))}]"
    letters = "".join(
        chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x2FFF)))) for _ in range(12)
    )
    return rng.choice((letters, f"click[{letters}]", f"search[{letters}]"))


def walk(env: WebShop, sessions: int, actions: int, seed: int = 0) -> tuple[str, Counter[str]]:
    """(digest of everything seen, what happened how often).

    Raises AssertionError where a reward or a done page shows before the end.
    """
    digest, counts = hashlib.sha256(), Counter[str]()
    tasks = env.tasks("test")
    for number in range(sessions):
        task = tasks[number % len(tasks)]
        rng = random.Random(stable_seed(seed, number))
        now = env.reset(task)
        for _ in range(actions):
            if now.done:
                counts["purchases"] += 1
                now = env.reset(task)
            action = act(rng, now, task.goal)
            now = env.step(action)
            counts["actions"] += 1
            counts["invalid"] += not now.valid
            check(now)
            record = json.dumps([action, now.observation, now.reward, now.admissible, now.valid])
            digest.update(record.encode())
    return digest.hexdigest(), counts


def check(now: TimeStep) -> None:
    """Hold an answer to what must be true of all."""
    assert 0.0 <= now.reward <= 1.0
    assert now.done or now.reward == 0.0
    for secret in ("Your score", "Reward", "Your code"):
        assert secret not in now.observation
    assert now.admissible is not None
    assert now.done or now.admissible
    assert not now.done or now.valid


def known_titles(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """The nouns of the titles, where the golden outputs lie beside the data."""
    path = folder / "golden" / "titles_pos.jsonl"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {row["name"]: tuple(row["nouns"]) for row in rows}


def play(folder: Path, sessions: int, actions: int) -> dict[str, object]:
    """Walk in every mode of observation, sharing the sessions out among them."""
    catalogue = open_catalogue(Files.find(folder, human=False))
    world = World(catalogue, titles=Titles(known_titles(folder)))
    report: dict[str, object] = {}
    for number, mode in enumerate(MODES):
        share = len(range(number, sessions, len(MODES)))
        env = WebShop(WebShopOptions(data=str(folder), observation=mode), world=world)
        digest, counts = walk(env, share, actions, seed=number)
        report[mode] = [digest, dict(sorted(counts.items()))]
    return report


if __name__ == "__main__":
    folder, *numbers = sys.argv[1:]
    sizes = [int(number) for number in numbers]
    sys.stdout.write(json.dumps(play(Path(folder), *(sizes or [1000, 100]))) + "\n")

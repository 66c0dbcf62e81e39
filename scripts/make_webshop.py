"""Generate our own WebShop catalogue and the expert's sessions in it (reproducible to the byte).

    python scripts/make_webshop.py

Writes the files of ldm/worlds/webshop/demo in the official format, with the nouns of each title
(which needs ldm-memory[webshop]), and data/trajectories/webshop/demo_train.jsonl.gz. Every session
is replayed.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm import records
from ldm.types import Task, Trajectory, stable_seed
from ldm.worlds.webshop import WebShop
from ldm.worlds.webshop.catalogue import Files, Product, read_products
from ldm.worlds.webshop.environment import OWN_DATA
from ldm.worlds.webshop.reward import Titles
from tools.webshop.expert import solve
from tools.webshop.shop_generator import Shop, files, generate, with_nouns

ROOT = Path(__file__).resolve().parent.parent
TRAJECTORIES = ROOT / "data" / "trajectories" / "webshop"
SEED = 2312_08402
SESSIONS = 100
#: Sessions with a lower score are left out, as experienced people rarely buy so badly.
LEAST_SCORE = 0.5


def main() -> None:
    """Write the catalogue, then one session for each of some products of the training split."""
    shop = generate(seed=SEED)
    with TemporaryDirectory() as temporary:
        write(shop, Path(temporary))
        titles = Titles()
        entries = read_products(Files.find(Path(temporary), human=False))
        products = [entry for entry in entries if isinstance(entry, Product)]
        nouns = {product.title: titles.nouns(product) for product in products}
    write(with_nouns(shop, nouns), OWN_DATA)
    env = WebShop()
    candidates = []
    for task in session_tasks(env):
        session = solve(env, task, seed=SEED)
        replay(env, session)
        if session.score >= LEAST_SCORE:
            candidates.append(session)
    sessions = candidates[:SESSIONS]
    TRAJECTORIES.mkdir(parents=True, exist_ok=True)
    records.write(TRAJECTORIES / "demo_train.jsonl.gz", sessions)
    for split in ("demo_train", "demo_test"):
        tasks = env.tasks(split)
        print(f"{split}: {len(tasks)} goals of {len({t.source for t in tasks})} products")
    print(
        f"{len(sessions)} sessions, score {mean(t.score for t in sessions):.3f}, "
        f"{mean(t.score >= 1 for t in sessions):.1%} in full, "
        f"{mean(len(t.steps) for t in sessions):.1f} steps"
    )


def write(shop: Shop, folder: Path) -> None:
    """Write the files of a shop, each atomically."""
    folder.mkdir(exist_ok=True)
    for name, content in files(shop).items():
        temporary = folder / f".{name}.tmp"
        temporary.write_bytes(content)
        temporary.replace(folder / name)


def session_tasks(env: WebShop) -> list[Task]:
    """Return one goal per training product, in a seeded order; a few more than needed."""
    tasks = list(env.tasks("demo_train"))
    random.Random(stable_seed("sessions", SEED)).shuffle(tasks)
    by_product = {task.source: task for task in reversed(tasks)}
    return list(by_product.values())[: SESSIONS + SESSIONS // 4]


def replay(env: WebShop, session: Trajectory) -> None:
    """Play a session again; exit if anything differs."""
    opening = env.reset(session.task).observation
    if opening != session.opening:
        sys.exit(f"{session.task.id} opens differently")
    for step in session.steps:
        time_step = env.step(step.action)
        observation = "" if time_step.done else time_step.observation
        if (observation, time_step.reward) != (step.observation, step.reward):
            sys.exit(f"{session.task.id}: {step.action} has another result")


if __name__ == "__main__":
    main()

"""The map is a pure function of its seed."""

import math
from collections import Counter
from dataclasses import replace

from ldm.worlds.minecraft.commands import State
from ldm.worlds.minecraft.controllers import Oracle
from ldm.worlds.minecraft.map import BIOMES, SEA, STRAY, World, cell_of, look
from ldm.worlds.minecraft.rules import VEINS, load_rules

CELLS = [(i, j) for i in range(-12, 12) for j in range(-12, 12)]


def started(world: World) -> State:
    x, z = world.start
    return look(State(spot=(x, world.surface(x, z), z)), world)


def test_a_square_is_the_same_in_whatever_order_the_world_is_visited() -> None:
    one, other = (World(7, start="any", herded=True) for _ in range(2))
    for cell in reversed(CELLS):
        other.trees(cell)
        other.animals(cell)
    for cell in CELLS:
        assert one.biome(cell) == other.biome(cell)
        assert one.trees(cell) == other.trees(cell)
        assert one.animals(cell) == other.animals(cell)


def test_biomes_have_about_their_shares() -> None:
    counts = Counter(World(seed, start="any", herded=False).biome((0, 0)) for seed in range(2000))
    total = sum(biome.weight for biome in BIOMES.values())
    for name, biome in BIOMES.items():
        share = biome.weight / total
        spread = math.sqrt(share * (1 - share) / 2000)
        assert abs(counts[name] / 2000 - share) < 4 * spread, name


def test_one_starts_in_plains_or_where_the_seed_falls() -> None:
    for seed in range(20):
        plains = World(seed, start="plains", herded=False)
        assert plains.biome(cell_of(*plains.start)) == "plains"
        assert World(seed, start="any", herded=False).start == (8, 8)


def test_animals_stay_near_home_and_herds_are_put_at_the_start_on_request() -> None:
    herded, bare = World(3, start="plains", herded=True), World(3, start="plains", herded=False)
    here = cell_of(*herded.start)
    assert len(herded.animals(here)) == len(bare.animals(here)) + 16
    for animal in herded.animals(here)[:4]:
        places = {herded.position(animal, tick) for tick in range(0, 2000, 37)}
        assert len(places) > 5
        assert all(abs(x - animal.x) <= STRAY and abs(z - animal.z) <= STRAY for x, z in places)


def test_what_was_seen_is_remembered_and_what_moved_away_forgotten() -> None:
    world = World(3, start="plains", herded=True)
    state = started(world)
    assert len(state.animals) >= 10
    x, y, z = state.spot
    far = look(replace(state, spot=(x + 200, y, z), tick=900), world)
    assert state.animals.items() <= far.animals.items()
    ghost = replace(far, spot=state.spot, animals={**far.animals, "start:cow9": (x, z, 0)})
    assert "start:cow9" not in look(ghost, world).animals


def test_below_the_ground_nothing_is_seen() -> None:
    world = World(3, start="plains", herded=True)
    x, z = world.start
    below = State(spot=(x, SEA - 1, z))
    assert look(below, world) == below


def test_veins_are_found_at_the_rate_at_which_they_lie() -> None:
    """Check tunnels of 600 blocks at y 11 in 30 worlds, to three standard deviations."""
    advances, worlds = 600, 30
    counts: Counter[str] = Counter()
    for seed in range(worlds):
        world = World(seed, start="any", herded=False)
        oracle = Oracle(load_rules("vanilla"), world, stated=False)
        state = State(spot=(8, 11, 8))
        for _ in range(advances):
            state = oracle._exposed(state, 20)
        counts.update(state.finds)
    for ore in ("coal", "iron_ore", "diamond", "redstone"):
        expected = worlds * advances * 20 * VEINS[ore].density
        assert abs(counts[ore] - expected) < 3 * math.sqrt(expected), ore

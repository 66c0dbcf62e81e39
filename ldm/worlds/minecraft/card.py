"""Minecraft's rules, actions and skills in words, for any agent's prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ldm.types import Card, Reading
from ldm.worlds.minecraft.commands import DIRECTIONS
from ldm.worlds.minecraft.rules import load_rules
from ldm.worlds.minecraft.sources import MOBS, RAW

#: Place of a source → the sorts of tools for it.
_TOOLS: Mapping[str, tuple[str, ...]] = {
    "tree": ("axe", "shears"),
    "animal": ("sword", "axe"),
    "ground": ("shovel",),
    "rock": ("pickaxe",),
    "vein": ("pickaxe",),
}


def _patience() -> Mapping[str, int]:
    """Return the lengths of DEPS' Table 18; other things in veins have that of iron."""
    rare = [item for item, source in RAW.items() if source.where == "vein" and item != "coal"]
    return {"": 600, **dict.fromkeys((f"mine {i}" for i in rare), 3000), "mine diamond": 12000}


def _reading() -> Reading:
    """Return the patterns by which observations tell the result of a goal, see `texts`."""
    rules = load_rules("vanilla")
    words = {goal.rpartition(" ")[2] for goal in _goals()}
    families = {word: rules.members(word) for word in sorted(words)}
    return Reading(
        done=r"^(?:Got|Killed|Made) \d+ \w+\.|^You (?:hold|walk|look)",
        going=r"^(?:Got|Killed) (?:no|\d+) \w+, (?P<left>\d+) to go",
        held=r"^Inventory: ([^.]*)\.",
        clock=r"^(?:Time|Actions): (\d+) of (\d+)",
        families={word: own for word, own in families.items() if own and own != (word,)},
        gathering=("mine", "kill"),
        patience=_patience(),
        sources={item: source.thing for item, source in RAW.items()} | {mob: mob for mob in MOBS},
        visible=r"^You see: ([^.]*)\.",
        remembered=r"^You remember: ([^.]*)\.",
        place=r"\bPlace: .*?, y (?P<y>-?\d+), (?P<biome>\w+)\.",
        fitting={item: _TOOLS[source.where] for item, source in RAW.items()}
        | dict.fromkeys(MOBS, _TOOLS["animal"]),
        walks=tuple(f"explore {direction}" for direction in DIRECTIONS),
    )


def _goals() -> Iterator[str]:
    """Yield every goal of the controller: of each item, and of the paper's words for several."""
    rules = load_rules("vanilla")
    raw = sorted({"log", "wool", "seeds", "leaves", *rules.sources})
    words = ["planks", "wooden_slab", "wooden_pressure_plate", "wooden_button", "sign", "fence",
             "fence_gate", "boat", "trapdoor", "wooden_door", "bed", "carpet"]  # fmt: skip
    yield from (f"mine 1 {item}" for item in raw)
    yield from (f"kill 1 {mob}" for mob in MOBS)
    yield from (f"craft 1 {item}" for item in sorted({*words, *rules.recipes}))
    yield from (f"smelt 1 {item}" for item in sorted(rules.smelting))
    yield from (f"equip {tool}" for tool in sorted(rules.uses))
    yield from (f"explore {direction}" for direction in DIRECTIONS)


CARD = Card(
    name="minecraft",
    rules=(
        "You play Minecraft, by its recipes, tools and hardness of blocks, and have to hold the "
        "item of the task before the time is up; time is counted in ticks, 20 a second. Logs come "
        "from trees, meat, leather and wool from animals, sand from deserts, clay and sugar cane "
        "from swamps; stone and ores lie below the ground. Stone and coal take a wooden pickaxe, "
        "iron ore and lapis a stone pickaxe, gold ore, redstone and diamonds an iron pickaxe. What "
        "does not fit into two by two parts is crafted with a crafting table; a furnace smelts; "
        "both must be in your inventory and return to it. Smelting burns planks, coal or other "
        "wood. An action goes on until it is done or has taken some time; then say it again to go "
        "on with it. An action that is not possible is answered with 'Nothing happens.' and "
        "changes nothing."
    ),
    actions=(
        "mine COUNT ITEM: get so many more of a raw item, with the best tool that you have; it is "
        "searched for where none is known",
        "mine COUNT ITEM with TOOL: the same with that tool",
        "kill COUNT MOB: kill sheep, cow, pig or chicken, and take what they leave",
        "kill COUNT MOB with TOOL: the same with that tool",
        "craft COUNT ITEM: make at least so many from what you have",
        "craft COUNT ITEM with crafting_table: the same at a table that you have",
        "smelt COUNT ITEM: make so many of a product in a furnace that you have",
        "smelt COUNT ITEM with furnace: the same",
        "equip ITEM: hold or wear it",
        "explore DIRECTION: walk 32 blocks north, east, south or west",
        "inventory: say where you are and what you have",
    ),
    skills=(
        "mine ITEM: get enough of a raw item, with a tool that is able to",
        "kill MOB: get what an animal leaves",
        "craft ITEM: with all parts and, if need be, a crafting table in the inventory, make it",
        "smelt ITEM: with ingredient, fuel and furnace in the inventory, make it",
        "check ITEM: look in the inventory whether there is enough of it",
    ),
    judged=("check",),
    kinds={
        "MT1": "make a simple thing of wood",
        "MT2": "make a tool or station of wood or stone",
        "MT3": "get food or something else that takes animals",
        "MT4": "get something that takes stone or coal",
        "MT5": "make something to wear or to defend oneself with",
        "MT6": "make a tool of iron",
        "MT7": "make another thing of iron",
        "MT8": "get something that takes an iron pickaxe",
        "parallel2": "get two things in any order",
        "parallel3": "get three things in any order",
        "parallel4": "get four things in any order",
    },
    common=("MT2",),
    handover="inventory",
    published={"deps": {"budget": 300}},
    outline="You are in a world of blocks, where things are gathered, crafted and smelted.",
    goals=tuple(_goals()),
    reading=_reading(),
)

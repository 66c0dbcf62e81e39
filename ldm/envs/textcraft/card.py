"""TextCraft's rules, actions and skills in words, for any agent's prompt."""

from ldm.types import Card

#: Steps of a trial, thoughts included: 3 times ADaPT's 20 of an executor (arXiv 2311.05772,
#: App. A). Its baselines have d_max times as many (§4.2), which would be 80 here.
_LOOP = {"budget": 60}
#: Options of ADaPT's executors; they are shown atomic skills and one whole task (its App. A).
_EXECUTOR: dict[str, int | str] = {"executor_steps": 20, "strength": "hybrid"}

CARD = Card(
    name="textcraft",
    rules=(
        "You craft one item, the goal. The first observation lists recipes, as 'craft COUNT ITEM "
        "using COUNT ITEM, COUNT ITEM'; some of them are of no use for the goal. What no recipe "
        "makes lies about and can be fetched in any amount; what a recipe makes must be crafted. "
        "A recipe is used once at a time, with exactly its ingredients and counts; what it makes "
        "goes into your inventory and its ingredients are gone. Where a recipe says 'planks' or "
        "'wool', name one kind that you hold, as in 'oak planks'. An action that is not possible "
        "answers with a sentence that starts with 'Could not' or 'Wrong' and changes nothing. The "
        "task is done when the goal has been crafted."
    ),
    actions=(
        "craft COUNT ITEM using COUNT ITEM, COUNT ITEM: use a recipe once, exactly as listed",
        "get COUNT ITEM: fetch an item that no recipe makes",
        "inventory: say what you hold",
    ),
    skills=(
        "get ITEM: fetch enough of an item that no recipe makes",
        "craft ITEM: with all ingredients in the inventory use its recipe, as often as needed",
        "check ITEM: look in the inventory whether there is enough of it",
    ),
    kinds={
        "depth1": "craft an item whose ingredients can all be fetched",
        "depth2": "craft an item with an ingredient that must be crafted first",
        "depth3": "craft an item over two crafted steps before the last",
        "depth4": "craft an item over three crafted steps before the last",
    },
    common=("depth2",),
    handover="inventory",
    published={
        "act": _LOOP,
        "react": _LOOP,
        "plan_hint": _LOOP,
        "plan_execute": _EXECUTOR,
        "reflexion": {**_LOOP, "trials": 4},  # ADaPT §4.2: d_max
        "try_again": {**_LOOP, "trials": 4},  # the same
        "adapt": {"d_max": 4, **_EXECUTOR},  # ADaPT §4.2
    },
    repeatable=("craft", "get"),
    outline="You craft an item in a world of recipes, which the first observation lists.",
)

"""ALFWorld's rules, actions and skills in words, for any agent's prompt."""

from ldm.types import Card

#: Steps of a trial, thoughts included: ADaPT's 20 of an executor (arXiv 2311.05772, App. A) times
#: its d_max of 3, as its baselines have them (§4.2).
_LOOP = {"budget": 60}
#: Options of ADaPT's executors (its App. A); they are shown atomic skills, heat, look (§4.1).
_EXECUTOR: dict[str, int | str] = {"executor_steps": 20, "strength": "hybrid"}

CARD = Card(
    name="alfworld",
    rules=(
        "You are a household robot in one room. The first observation lists the places of the "
        "room (furniture and appliances); what they hold is seen only on going there, and inside "
        "a closed place only after opening it. You hold at most one object at a time. Things are "
        "called by a type and a number, as in 'mug 2'. An action that is not possible answers "
        "'Nothing happens.' and changes nothing. The task is done as soon as what it asks for is "
        "true."
    ),
    actions=(
        "go to PLACE: walk to a place and see what is on it, or that it is closed",
        "open PLACE: open a closed place and see what is in it",
        "close PLACE: close an open place",
        "take OBJECT from PLACE: pick up an object where you are; your hands must be empty",
        "put OBJECT in/on PLACE: leave the held object where you are (in some games: "
        "move OBJECT to PLACE)",
        "clean OBJECT with PLACE: wash the held object at a sinkbasin",
        "heat OBJECT with PLACE: warm the held object at a microwave",
        "cool OBJECT with PLACE: chill the held object at a fridge",
        "use OBJECT: switch a lamp on or off at the place where you are",
        "slice OBJECT with OBJECT: cut an object with a knife that you hold",
        "examine THING: look closely at an object or a place",
        "inventory: say what you hold",
        "look: say where you are",
    ),
    skills=(
        "find OBJECT: visit places, likely ones first, opening closed ones, until it is seen",
        "take OBJECT: go to where the object was seen and pick it up",
        "put OBJECT at PLACE: with the object in hand go there, open it if closed, leave it",
        "clean OBJECT: with the object in hand go to a sinkbasin and clean it",
        "heat OBJECT: with the object in hand go to a microwave and heat it; it need not be opened",
        "cool OBJECT: with the object in hand go to a fridge and cool it; it need not be opened",
        "light OBJECT: with the object in hand go to where a lamp stands and use the lamp",
    ),
    kinds={
        "pick": "put an object of a type at a place of a type",
        "look": "hold an object of a type under a lamp that is switched on",
        "clean": "put an object of a type, cleaned, at a place of a type",
        "heat": "put an object of a type, heated, at a place of a type",
        "cool": "put an object of a type, cooled, at a place of a type",
        "pick2": "put two objects of a type at the same place of a type",
    },
    common=("heat", "look"),
    published={
        "act": _LOOP,
        "react": _LOOP,
        "plan_hint": _LOOP,
        "plan_execute": _EXECUTOR,
        "reflexion": {**_LOOP, "trials": 5},  # LDM², arXiv 2312.08402, Table 2
        "try_again": {**_LOOP, "trials": 3},  # ADaPT §4.2: d_max
        "adapt": {"d_max": 3, **_EXECUTOR},  # ADaPT §4.2
        # AutoPlan, arXiv 2305.15064: §4.2, §4.1 and Table 6
        "autoplan": {"budget": 35, "pool": 24, "env.feedback": "fine"},
        "deps": {"budget": 50},  # DEPS, arXiv 2302.01560, App. A.1.1
    },
    outline=(
        "You are in a simulated household, a room with many places and objects. They are called "
        "by a type and a number, as in 'mug 2'."
    ),
    habits=("close ",),
)

"""The furniture and objects of our own households, and where people would look for each.

Type names are those of the ALFWorld domain, so that its grammar and goals apply.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldm.worlds.alfworld_expert import FACTS


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})

#: Types whose things the grammar calls containers when they are examined.
CONTAINERS = frozenset({"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"})

#: Kind of task → the place where its object is changed.
STATIONS: dict[str, str] = FACTS["stations"]

CLEANABLE = frozenset(
    _words(
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Lettuce Mug Pan Plate Pot Potato "
        "SoapBar Spoon Tomato"
    )
)
HEATABLE = frozenset(_words("Apple Bread Cup Egg Mug Plate Potato Tomato"))
COOLABLE = frozenset(_words("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato"))
LAMP = "DeskLamp"

#: Object type → types of place that can hold it, the likeliest first.
PLACES: dict[str, tuple[str, ...]] = {
    name: _words(places) for name, places in FACTS["places"].items()
}


@dataclass(frozen=True, slots=True)
class Room:
    """A kind of room.

    places: type of receptacle → (fewest, most) of it.
    objects: movable types that are usual here.
    kinds: tasks that can be done here.
    """

    name: str
    places: dict[str, tuple[int, int]]
    objects: tuple[str, ...]
    kinds: tuple[str, ...]


ROOMS = (
    Room(
        "kitchen",
        {
            "Cabinet": (4, 9),
            "CoffeeMachine": (1, 1),
            "CounterTop": (1, 3),
            "DiningTable": (0, 1),
            "Drawer": (2, 5),
            "Fridge": (1, 1),
            "GarbageCan": (1, 1),
            "Microwave": (1, 1),
            "SinkBasin": (1, 1),
            "StoveBurner": (2, 4),
        },
        _words(
            "Apple Bowl Bread ButterKnife Cup DishSponge Egg Fork Lettuce Mug Pan "
            "PepperShaker Plate Pot Potato SaltShaker SoapBottle Spoon Tomato"
        ),
        ("pick", "clean", "heat", "cool", "pick2"),
    ),
    Room(
        "bedroom",
        {
            "Bed": (1, 1),
            "Desk": (1, 2),
            "Drawer": (3, 6),
            "Dresser": (0, 1),
            "GarbageCan": (1, 1),
            "Safe": (0, 1),
            "Shelf": (2, 5),
            "SideTable": (1, 2),
        },
        _words(
            "AlarmClock Book Bowl CD CellPhone CreditCard KeyChain Laptop Mug Pen Pencil "
            "Pillow Watch"
        ),
        ("pick", "look", "pick2"),
    ),
    Room(
        "bathroom",
        {
            "BathtubBasin": (0, 1),
            "Cabinet": (2, 4),
            "CounterTop": (1, 1),
            "Drawer": (1, 4),
            "GarbageCan": (1, 1),
            "Shelf": (0, 1),
            "SinkBasin": (1, 2),
            "Toilet": (1, 1),
        },
        _words("Candle Cloth SoapBar SoapBottle SprayBottle TissueBox ToiletPaper"),
        ("pick", "clean", "pick2"),
    ),
    Room(
        "living room",
        {
            "ArmChair": (1, 2),
            "CoffeeTable": (1, 1),
            "Drawer": (2, 5),
            "GarbageCan": (1, 1),
            "Shelf": (0, 4),
            "SideTable": (1, 3),
            "Sofa": (1, 1),
            "TVStand": (1, 1),
        },
        _words(
            "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow "
            "RemoteControl Statue TissueBox Vase Watch"
        ),
        ("pick", "look", "pick2"),
    ),
)

"""The five kinds of tasks (DEPS, Table 7), each with its scene, actions and score."""

from ldm.worlds.tabletop.kinds.base import Kind
from ldm.worlds.tabletop.kinds.bowls import Bowls
from ldm.worlds.tabletop.kinds.hanoi import Hanoi
from ldm.worlds.tabletop.kinds.kits import Kits
from ldm.worlds.tabletop.kinds.packing import Packing
from ldm.worlds.tabletop.kinds.pyramid import Pyramid

#: In the order of the paper.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Kits(), Hanoi(), Bowls(), Packing(), Pyramid())
}

__all__ = ["KINDS", "Kind"]

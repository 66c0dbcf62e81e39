"""The five kinds of tasks (DEPS, Table 7), each with its scene, actions and score."""

from ldm.envs.tabletop.kinds.base import Kind
from ldm.envs.tabletop.kinds.bowls import Bowls
from ldm.envs.tabletop.kinds.hanoi import Hanoi
from ldm.envs.tabletop.kinds.kits import Kits
from ldm.envs.tabletop.kinds.packing import Packing
from ldm.envs.tabletop.kinds.pyramid import Pyramid

#: In the order of the paper.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Kits(), Hanoi(), Bowls(), Packing(), Pyramid())
}

__all__ = ["KINDS", "Kind"]

"""The five kinds of tasks (DEPS, Table 7), each with its scene, actions and score.

name: as CLIPort's, with underscores. instruction: DEPS, Table 7. `draw` draws a scene, `opening`
says in sentences what there is, `whereabouts` where each thing is, in the order of the scene.
`commands` lists the actions that bring a thing to another place; `understand` returns the move of
a normalized action, or why it is impossible. `share` is that of the targets that are met, 1 for
success. `goals` yields every action of all scenes.
"""

from ldm.worlds.tabletop.kinds.bowls import Bowls
from ldm.worlds.tabletop.kinds.hanoi import Hanoi
from ldm.worlds.tabletop.kinds.kits import Kits
from ldm.worlds.tabletop.kinds.packing import Packing
from ldm.worlds.tabletop.kinds.pyramid import Pyramid

Kind = Kits | Hanoi | Bowls | Packing | Pyramid

#: In the order of the paper.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Kits(), Hanoi(), Bowls(), Packing(), Pyramid())
}

__all__ = ["KINDS", "Kind"]

"""Tabletop: five tasks of rearranging things on a table, with real physics, in text.

They are the tasks of DEPS (arXiv 2302.01560, App. A.2), which are CLIPort's. Only
`ldm.worlds.tabletop.physics` knows MuJoCo, and it loads it when a task is played.
"""

from ldm.worlds.tabletop.environment import Tabletop, TabletopOptions

__all__ = ["Tabletop", "TabletopOptions"]

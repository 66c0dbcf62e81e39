"""ALFWorld: household tasks in text (Shridhar et al., arXiv 2010.03768), in TextWorld's engine.

The engine's packages are imported only when a game is started.
"""

from ldm.worlds.alfworld.environment import ALFWorld, ALFWorldOptions

__all__ = ["ALFWorld", "ALFWorldOptions"]

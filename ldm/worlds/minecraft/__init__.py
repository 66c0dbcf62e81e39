"""Minecraft in text: gather, craft and smelt an item in a seeded world, as in DEPS.

Wang et al., arXiv 2302.01560. Recipes, tools and hardness are the game's (`rules.json`).
"""

from ldm.worlds.minecraft.environment import Minecraft, MinecraftOptions

__all__ = ["Minecraft", "MinecraftOptions"]

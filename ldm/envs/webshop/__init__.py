"""WebShop: shopping in text on a simulated site (Yao et al., NeurIPS 2022), without Java.

The same pages, search and reward as the official environment; what it leaves to chance is seeded.
"""

from ldm.envs.webshop.environment import WebShop, WebShopOptions

__all__ = ["WebShop", "WebShopOptions"]

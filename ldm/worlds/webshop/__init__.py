"""WebShop: shopping in text on a simulated site (Yao et al., NeurIPS 2022), without Java.

Pages, search and reward are those of the official environment; its random choices are seeded here.
"""

from ldm.worlds.webshop.environment import WebShop, WebShopOptions

__all__ = ["WebShop", "WebShopOptions"]

"""HotpotQA: questions over two articles (Yang et al., arXiv 1809.09600), with ReAct's actions."""

from ldm.worlds.hotpotqa.environment import HotpotQA, HotpotQAOptions

__all__ = ["HotpotQA", "HotpotQAOptions"]

"""Act (ReAct's baseline, Yao et al., arXiv 2210.03629, §3.2): ReAct without its thoughts.

LDM² (arXiv 2312.08402, §4.2) calls the same Standard: the registry knows it by both names. ReAct's
own Standard is a question answered at once: `cot` without a thought.
"""

from __future__ import annotations

from ldm.agents.react import ReactAgent


class ActAgent(ReactAgent):
    """Acts and observes as the demonstrations do, without a thought."""

    name = "act"
    paper = "Act, ReAct, arXiv 2210.03629, §3.2; Standard, LDM², arXiv 2312.08402"
    thinking = False

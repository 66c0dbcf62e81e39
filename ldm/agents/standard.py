"""Standard prompting (LDM²'s baseline, arXiv 2312.08402, §4.2): whole processes as examples.

What ReAct calls Standard is another thing, a question answered at once: `cot` without a thought.
"""

from __future__ import annotations

from typing import ClassVar

from ldm.agents.act import ActAgent


class StandardAgent(ActAgent):
    """Acts as the demonstrations do: what act does, by the name that LDM² gives it."""

    name = "standard"
    paper: ClassVar[str] = "Standard, LDM², arXiv 2312.08402, §4.2"

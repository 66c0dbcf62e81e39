"""Human experience as memory for language-model agents, and a fair way to compare such agents.

The package reads as the method: `ldm.memory` (trajectories become tuples, tuples are recalled),
`ldm.reasoner` (what the paper asks a language model for), `ldm.policy` (one decision),
`ldm.agents`, `ldm.envs`, `ldm.explore` and `ldm.eval`. See docs/architecture.md.
"""

__version__ = "0.1.0"

"""A package of another project that adds an environment and an agent to ldm."""

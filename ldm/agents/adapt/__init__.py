"""ADaPT (Prasad et al., arXiv 2311.05772): decompose a task when, and only when, it failed."""

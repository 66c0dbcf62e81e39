"""ldm in other frameworks: memories for agents, and environments for trainers.

One module a framework; each imports its framework and nothing else of this package but
`experience` and `panel`.
"""

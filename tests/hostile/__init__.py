"""Input that somebody made to break or to misuse ldm, and damage that nobody meant."""

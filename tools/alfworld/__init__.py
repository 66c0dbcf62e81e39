"""ALFWorld: our own games, expert episodes in them, and comparisons of the two engines."""

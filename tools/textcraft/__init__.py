"""TextCraft: shortest solutions and expert episodes of the training tasks."""

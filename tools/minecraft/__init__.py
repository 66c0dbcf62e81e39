"""What makes Minecraft's shipped data: facts of the game, lists of tasks, an expert's episodes."""

"""What makes HotpotQA's own world: a generator of articles and questions, and an expert."""

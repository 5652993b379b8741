"""The nodes of graphs: acts, prompts, and the state that they read and write."""

"""Chat models of agents: local models with hooks, hosted models, and a scripted model for tests."""

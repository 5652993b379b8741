"""Prompts of agents: prompt files with named slots, and the parsers of answers."""

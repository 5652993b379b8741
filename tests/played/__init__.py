"""Discussions played by writers in the place of strong models: prompts, replies and labels."""

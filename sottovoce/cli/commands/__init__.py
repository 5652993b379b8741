"""The commands, by area: each module has its own app, which `cli/main.py` adds to the main one.

Nothing here imports torch or langgraph before a command runs: `--help` answers at once.
"""

"""The commands, by area: each module has an app of its own, which `cli.py` takes into the one that is run.

Nothing here imports torch or langgraph before a command runs: `--help` answers at once.
"""

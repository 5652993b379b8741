"""Folders of the user's own where models, and a file of defaults, lie."""

from __future__ import annotations

import os
from pathlib import Path


def models_folder() -> Path:
    """`$SOTTOVOCE_MODELS`, or `sottovoce/models` in the user's cache folder."""
    if chosen := os.environ.get("SOTTOVOCE_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sottovoce" / "models"


def config_folder() -> Path:
    """`sottovoce` in the user's folder for configuration."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sottovoce"

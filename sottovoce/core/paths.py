"""Folders of the user for stored models and the config file."""

from __future__ import annotations

import os
from pathlib import Path


def models_folder() -> Path:
    """Return the folder of stored models: `$SOTTOVOCE_MODELS`, or `sottovoce/models` in the user's cache folder."""
    if chosen := os.environ.get("SOTTOVOCE_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sottovoce" / "models"


def config_folder() -> Path:
    """Return the folder of the config file: `sottovoce` in the user's configuration folder."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sottovoce"

"""A check that the hub answers.

Without it, an unknown id takes minutes if there is no network: huggingface_hub 2.4 tries each missing file five times
and waits 23 s in all, and transformers requests several files.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from sottovoce.core.errors import ModelError, command, first_line

CONFIG = "config.json"
BROKEN = 500  # and above: the server exists but cannot answer


def reached(name: str) -> str:
    """Return a hub id unchanged if the hub answers, else the folder of its files in the hub's local cache.

    Raises:
        ModelError: the hub does not answer, and the cache does not have the model.
    """
    silence = _silence(name)
    if silence is None:
        return name
    cached = try_to_load_from_cache(name, CONFIG)
    if isinstance(cached, str):
        return str(Path(cached).parent)
    raise ModelError(
        f"model {name!r} cannot be loaded: there is no such folder, the hub cannot be reached ({silence}), and its "
        "local cache does not have the model; give a folder, a .gguf file, or a name that "
        f"{command('models', 'list')} shows"
    )


def _silence(name: str) -> str | None:
    """Return why the hub does not answer; None if it does, even if there is no such model."""
    try:
        get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except HfHubHTTPError as error:
        return first_line(error) if error.response.status_code >= BROKEN else None
    except Exception as error:  # of whichever HTTP library huggingface_hub uses
        return first_line(error)
    return None

"""Whether the hub answers, asked once.

Without this an unknown id costs minutes where there is no network: huggingface_hub 2.4 tries each file
that it does not have five times, waiting 23 s in all, and transformers asks for several.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from sottovoce.errors import ModelError, command, first_line

CONFIG = "config.json"
BROKEN = 500  # and above: the server is there, and cannot answer


def reached(name: str) -> str:
    """A hub id as it is where the hub answers, else the folder of its files in the hub's local cache.

    Raises:
        ModelError: the hub does not answer, and the cache does not hold the model.
    """
    silence = _silence(name)
    if silence is None:
        return name
    cached = try_to_load_from_cache(name, CONFIG)
    if isinstance(cached, str):
        return str(Path(cached).parent)
    raise ModelError(
        f"model {name!r} cannot be loaded: there is no such folder, the hub cannot be reached ({silence}), and its "
        "local cache does not hold the model; give a folder, a .gguf file, or a name that "
        f"{command('models', 'list')} shows"
    )


def _silence(name: str) -> str | None:
    """Why the hub does not answer; None where it does, be it that there is no such model."""
    try:
        get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except HfHubHTTPError as error:
        return first_line(error) if error.response.status_code >= BROKEN else None
    except Exception as error:  # of whichever library huggingface_hub speaks HTTP by
        return first_line(error)
    return None

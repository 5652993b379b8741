"""The folder or hub id behind the name of a model, and a check that the hub answers.

Without that check, an unknown id takes minutes if there is no network: huggingface_hub 2.4 tries each missing file five
times and waits 23 s in all, and transformers requests several files.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from sottovoce.core.errors import ModelError, command, first_line
from sottovoce.models.sources.catalogue import CATALOGUE
from sottovoce.models.sources.pull import pulled

BUNDLED = "bundled"
BUNDLED_FOLDER = Path(__file__).parents[1] / "bundled"
GGUF = ".gguf"
NAMES = "'bundled', a name that `models list` shows, a folder with config.json and *.safetensors, a .gguf file"


def locate(name: str | Path) -> str:
    """Return the folder, GGUF file or hub id behind a name; fetch and convert nothing.

    Raises:
        ModelError: no such model, one that was not pulled, one that is no language model, or only pickled weights.
    """
    if str(name) == BUNDLED:
        return str(BUNDLED_FOLDER)
    if isinstance(name, str) and name in CATALOGUE:
        if not CATALOGUE[name].speaks:
            raise ModelError(
                f"model {name!r} is {CATALOGUE[name].description}, which cannot speak; give a causal language model"
            )
        return str(pulled(name))
    path = Path(name).expanduser()
    if path.is_dir():
        return _checked(path, str(name))
    if path.is_file():
        return str(path.resolve())
    if path.suffix == GGUF:
        raise ModelError(f"there is no file {str(name)!r}; expected a GGUF file there")
    if str(name).count("/") == 1 and not path.is_absolute() and not str(name).startswith("."):
        return str(name)
    raise ModelError(f"unknown model {str(name)!r}; give {NAMES}, or a hub id owner/name")


def ready(where: str) -> str:
    """Return a location from `locate` as transformers reads it; convert a GGUF file, and check that a hub answers.

    Raises:
        ModelError: an invalid GGUF file, or an unreachable hub and a model that is not in its cache.
    """
    if Path(where).is_dir():
        return where
    if Path(where).is_file():
        from sottovoce.models.sources.gguf import converted  # late: it imports gguf

        return str(converted(Path(where)))
    return reached(where)


def _checked(folder: Path, name: str) -> str:
    if not (folder / "config.json").is_file():
        files = sorted(file.name for file in folder.glob(f"*{GGUF}"))
        hint = f"; give the file itself: {name.rstrip('/')}/{files[0]}" if files else ""
        raise ModelError(f"folder {name!r} is not a model: it has no config.json{hint}")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        found = f"only pickled weights ({', '.join(pickled)})" if pickled else "no weights"
        raise ModelError(f"model {name!r} has {found}; expected *.safetensors (convert it: a pickle can run code)")
    return str(folder.resolve())


CONFIG = "config.json"
BROKEN = 500  # and above: the server exists but cannot answer


def reached(name: str) -> str:
    """Return a hub id unchanged if the hub answers, else the folder of its files in the hub's local cache."""
    try:
        get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=constants.HF_HUB_ETAG_TIMEOUT)
        return name
    except HfHubHTTPError as error:
        if error.response.status_code < BROKEN:  # it answers, even if there is no such model
            return name
        silence = first_line(error)
    except Exception as error:  # of whichever HTTP library huggingface_hub uses
        silence = first_line(error)
    cached = try_to_load_from_cache(name, CONFIG)
    if isinstance(cached, str):
        return str(Path(cached).parent)
    raise ModelError(
        f"model {name!r} cannot be loaded: there is no such folder, the hub cannot be reached ({silence}), and its "
        "local cache does not have the model; give a folder, a .gguf file, or a name that "
        f"{command('models', 'list')} shows"
    )

"""Silence of Hugging Face's libraries on the terminal."""

from __future__ import annotations

import logging

from transformers.utils import logging as transformers_logging


def quiet() -> None:
    """Turn off the libraries' progress bars and retry messages; errors still reach the caller."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for library in ("huggingface_hub", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)

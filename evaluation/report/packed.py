"""Rows of numbers as short text: 16 bits a number, or 32 where these do not do, in base64, times a scale.

The page's `unpacked` reads them.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]  # Any: of any dtype
JSON = dict[str, Any]  # Any: plain JSON
MOST = 0xFFFF


def fractions(values: Numbers, step: float) -> JSON:
    """Numbers from 0 up, in steps; what is beyond 65,535 of them, or no number, is that."""
    steps = np.nan_to_num(np.asarray(values, np.float64) / step, nan=MOST, posinf=MOST)
    return {"x": step, "b": _base64(np.clip(np.rint(steps), 0, MOST).astype("<u2"))}


def scaled(values: Numbers) -> JSON:
    """Numbers from 0 up, in 65,535ths of the largest."""
    top = float(np.max(values, initial=0.0))
    return fractions(values, top / MOST if top > 0 else 1.0)


def counts(values: Numbers) -> JSON:
    """Whole numbers from 0 up, exactly."""
    found = np.asarray(values)
    wide = bool(np.max(found, initial=0) > MOST)
    return {"x": 1, "b": _base64(found.astype("<u4" if wide else "<u2")), **({"wide": 1} if wide else {})}


def _base64(values: Numbers) -> str:
    return b64encode(values.tobytes()).decode("ascii")

"""Arrays of numbers as short text: base64 of 16 bits per number, or 32 where needed, with a scale.

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
    """Pack numbers from 0 up in steps; values above 65,535 steps and NaN are stored as 65,535."""
    steps = np.nan_to_num(np.asarray(values, np.float64) / step, nan=MOST, posinf=MOST)
    return {"x": step, "b": _base64(np.clip(np.rint(steps), 0, MOST).astype("<u2"))}


def scaled(values: Numbers) -> JSON:
    """Pack numbers from 0 up in 65,535ths of the largest."""
    top = float(np.max(values, initial=0.0))
    return fractions(values, top / MOST if top > 0 else 1.0)


def counts(values: Numbers) -> JSON:
    """Pack whole numbers from 0 up, exactly."""
    found = np.asarray(values)
    wide = bool(np.max(found, initial=0) > MOST)
    return {"x": 1, "b": _base64(found.astype("<u4" if wide else "<u2")), **({"wide": 1} if wide else {})}


def _base64(values: Numbers) -> str:
    return b64encode(values.tobytes()).decode("ascii")

"""Checks of an edited state: what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sottovoce.nodes.state import Discussion
from sottovoce.nodes.state_validation import _adapter


@pytest.mark.parametrize("epochs", [[0] * 1000, [["x"] * 1000]])
def test_a_list_is_refused_at_its_first_wrong_item(epochs: Any) -> None:
    """A million wrong items took 1.5 GB of errors."""
    with pytest.raises(ValidationError) as refused:
        _adapter(Discussion).validate_python({"epochs": epochs}, strict=True)
    assert refused.value.error_count() == 1

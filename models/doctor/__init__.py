"""Look at a model before trusting it; here alone in this folder protocols have names."""

from sottovoce.models.doctor.diagnosis import diagnose, examine
from sottovoce.models.doctor.selftest import Finding

__all__ = ["Finding", "diagnose", "examine"]

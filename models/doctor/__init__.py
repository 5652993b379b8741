"""Look at a model before trusting it; here alone in this folder protocols have names."""

from sottovoce.models.doctor.diagnosis import Finding, diagnose, examine

__all__ = ["Finding", "diagnose", "examine"]

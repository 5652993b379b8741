"""Diagnosis of a model before use. Within `models`, only this folder names protocols."""

from sottovoce.models.doctor.diagnosis import Finding, diagnose, examine

__all__ = ["Finding", "diagnose", "examine"]

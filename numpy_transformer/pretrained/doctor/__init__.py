"""A doctor for conversions: wrong conversions give fluent nonsense, and a text finds out which mistake was made."""

from .diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]

"""A doctor for conversions: wrongly converted weights give fluent nonsense, and the loss on a text shows the mistake."""

from .diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]

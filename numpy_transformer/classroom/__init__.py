"""What lessons are made of."""

from . import lesson
from .lesson import claim, figure, predict, show

__all__ = ["claim", "figure", "lesson", "predict", "show"]

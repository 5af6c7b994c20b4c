"""What lessons are made of."""

from . import lesson
from .lesson import claim, figure, predict, show, slopes

__all__ = ["claim", "figure", "lesson", "predict", "show", "slopes"]

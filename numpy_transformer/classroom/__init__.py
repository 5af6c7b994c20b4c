"""What the lessons are made of."""

from . import lesson
from .helpers import claim, figure, predict, show, slopes

__all__ = ["claim", "figure", "lesson", "predict", "show", "slopes"]

"""Functions for the lessons, and the checker and grader of the exercises."""

from .lessons import lesson
from .lessons.helpers import claim, figure, predict, show, slopes

__all__ = ["claim", "figure", "lesson", "predict", "show", "slopes"]

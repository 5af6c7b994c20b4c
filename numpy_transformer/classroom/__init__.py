"""Functions for the lessons, and the checker and grader of the exercises."""

from . import lesson
from .helpers import claim, figure, predict, show, slopes

__all__ = ["claim", "figure", "lesson", "predict", "show", "slopes"]

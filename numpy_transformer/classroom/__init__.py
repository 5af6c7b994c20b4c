"""What lessons are made of."""

from .lesson import claim, figure, show

__all__ = ["claim", "figure", "show"]

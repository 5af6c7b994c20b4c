"""The explorer: one training step, forward and backward, as a page in the browser."""

from .explorer import Explorer, explore

__all__ = ["Explorer", "explore"]

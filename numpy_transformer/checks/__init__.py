"""Checks of correctness: the gradient check, and the table of named checks that every component has to pass."""

from .gradcheck import gradcheck

__all__ = ["gradcheck"]

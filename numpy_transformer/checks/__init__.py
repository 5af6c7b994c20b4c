"""What proves that the gradients are right."""

from .gradcheck import gradcheck

__all__ = ["gradcheck"]

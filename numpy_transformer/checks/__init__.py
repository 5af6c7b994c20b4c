"""What proves things: the gradient check, and the recorder of every call."""

from .gradcheck import gradcheck
from .record import record

__all__ = ["gradcheck", "record"]

"""What proves things: the gradient check, the recorder of every call, and what reaches what."""

from .gradcheck import gradcheck
from .influence import influence
from .record import record

__all__ = ["gradcheck", "influence", "record"]

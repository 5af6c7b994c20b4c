"""Models that know the arguments with which they were made."""

import inspect
from dataclasses import fields
from typing import Any

from ..module import Module


class RebuildableModel(Module):
    """A model that knows the arguments of its constructor, so that what is saved of it can be built again.

    Its signature shows the fields of the dataclass `Settings` in the place of **settings.
    """

    Settings: Any = None
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    __signature__: inspect.Signature

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _, *own = inspect.signature(cls.__init__).parameters.values()       # that of __init__, and not of __new__
        if cls.Settings is not None and own[-1].kind is inspect.Parameter.VAR_KEYWORD:
            own[-1:] = [inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default,
                                          annotation=field.type) for field in fields(cls.Settings)]
        cls.__signature__ = inspect.Signature(own)

    def __new__(cls, *arguments: Any, **named: Any) -> "RebuildableModel":
        model = super().__new__(cls)
        model._arguments = arguments, named
        return model

    def constructor_arguments(self) -> dict[str, Any]:
        """Returns {name: value} of the arguments that the constructor was given, except for rng."""
        arguments, named = self._arguments
        names = [name for name in inspect.signature(type(self)).parameters]
        return {name: value for name, value in [*zip(names, arguments), *named.items()] if name != "rng"}

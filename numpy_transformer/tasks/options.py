"""The options of a model that another one takes over."""

import inspect


def is_published(meta):
    """Returns True for the meta of a model of a published family: one that `import` has read, a run that started from one, or
    one that was trained with the architecture of a current model.
    """
    return "origin" in meta


def options_of(model_class, options):
    """Returns all options of a model: those given, and the defaults of its class."""
    parameters = inspect.signature(model_class).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters
            if parameter.default is not parameter.empty and parameter.name != "rng"} | options


def without_head(model_class, options, base):
    """Returns all options of a model, except those that the class `base`, which it extends by a head, does not have."""
    of_head = set(inspect.signature(model_class).parameters) - set(inspect.signature(base).parameters)
    return {name: value for name, value in options_of(model_class, options).items() if name not in of_head}


def model_of_run(model_class, options, origin, rng):
    """A new model of a run. The family of a published one makes its parts; `origin` is that of its meta, or None."""
    if origin is None:
        return model_class(**options, rng=rng)
    from ..pretrained import build_model  # only published models need it

    return build_model(origin["family"], model_class, options, rng)

"""Makes the parts of stages: from exercises of the course, or from a driver whose correct results the package gives."""

import inspect

from ...exercises import exercises
from .. import drivers, package
from ..definition import StagePart, like

LINKED = ("config", "ends", "count", "num_heads", "num_layers", "arrays", "pad_id", "source", "texts", "vocabulary", "merges",
          "xs", "targets", "rates", "draws")    # arguments that belong together


def of_exercise(stage, number, driver=None, checks=(), **changes):
    """Returns the StagePart that is the exercise of this number."""
    return like(exercises()[number], stage=stage, drives=driver, checks=checks, **changes)


def new_part(stage, number, driver, checks, inputs, outputs, mistakes=(), **more):
    """Returns a StagePart of its own, whose correct results are those of the package's components."""
    reference = more.pop("reference", None) or package.driven(driver)
    linked = tuple(name for name in inspect.signature(driver).parameters if name in LINKED)
    return StagePart(f"{stage}.{number}", minutes=0, lines=0, solution=driver, reference=reference, inputs=inputs,
                     outputs=outputs, mistakes=mistakes, stage=stage, drives=driver, checks=checks, from_stage=True,
                     number_sizes=(), linked=(linked,) if linked else (), **more)


def normal(rng, *shape):
    return rng.standard_normal(shape)


def arrays_of(component, rng, scale=0.4):
    """Returns {name: random array} for all parameters of a component of the package; none is 1 or 0 on average."""
    return {name: rng.uniform(0.5, 2, parameter.data.shape) if name.endswith("gamma")
            else scale * rng.standard_normal(parameter.data.shape)
            for name, parameter in drivers.parameters_of(component).items()}


def built(name, *sizes):
    """Returns a component of the package, built with these sizes."""
    return package.named()[name](*sizes)

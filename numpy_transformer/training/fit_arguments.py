"""Checks the arguments of Trainer.fit before anything is computed."""

from ..argument_checks import check_positive


def check_fit(batches, steps, epochs, validation, every, patience, watch):
    """Raises ValueError or TypeError, with the remedy, for arguments that fit cannot use."""
    if (steps is None) == (epochs is None):
        raise ValueError(f"fit takes steps or epochs, got steps = {steps} and epochs = {epochs}; give one of them")
    counts = {"steps": steps, "epochs": epochs, "every": every, "patience": patience}
    check_positive(**{name: value for name, value in counts.items() if value not in (None, 0)})
    patience_without_validation = patience is not None and validation is None
    if every == 0 or patience == 0 or patience_without_validation:
        raise ValueError(f"every = {every} and patience = {patience} must be at least 1, and patience needs "
                         "validation, whose measurements it counts")
    if patience is not None and watch != "validation" and not callable(validation):
        raise ValueError(f"watch = {watch!r} is not measured on a list of batches, only the loss is; pass a validation "
                         "function that returns it")
    if batches is not None and (epochs is not None or not callable(batches)):
        check_has_batches("batches", batches)
    if validation is not None and not callable(validation):
        check_has_batches("validation", validation)


def check_has_batches(name, given):
    if not hasattr(given, "__len__"):
        raise TypeError(f"{name}, a {type(given).__name__}, has no length; pass a list, or (with steps instead of "
                        "epochs) a function of the batch's number, so that a run can be resumed at any batch")
    if not len(given):
        raise ValueError(f"{name} contains no batches; give at least one")

"""Sliding windows: which blocks of a model have one, and how they get it."""

from ..file_checks import quoted
from ..layers import SlidingWindow
from ..layers.attention import with_score_changes

LAYER_TYPES = {"full_attention": False, "sliding_attention": True}      # whether a block has a window


def blocks_with_windows(config, num_layers, has_window):
    """Returns a list of booleans, one for each block: whether it has a window, as the list of layer_types in config.json says.

    Parameters: config : CheckedConfig; num_layers : int; has_window : (number of a block) -> bool, where there is no such list
    Raises: ValueError for a list that does not fit.
    """
    types = config.get("layer_types")
    if types is None:
        return [bool(has_window(number)) for number in range(num_layers)]
    unknown = [name for name in types if name not in LAYER_TYPES]
    if unknown or len(types) != num_layers:
        raise ValueError(f"config.json gives layer_types = {quoted(types)}, wanted {' or '.join(LAYER_TYPES)}, which this "
                         f"package supports, for each of the {num_layers} blocks; copy the original file")
    return [LAYER_TYPES[name] for name in types]


def with_windows(options, window, blocks=None):
    """Returns the options with the sliding window of each block, None for a block without; as they are if it is not shorter
    than the longest text.

    Parameters: options : dict, with num_layers and max_len; window : int or None; blocks : list of booleans (None: all)
    """
    if window is None or window >= options["max_len"]:
        return options
    blocks = [True] * options["num_layers"] if blocks is None else blocks
    return options | {"windows": [window if has_window else None for has_window in blocks]}


def add_windows(stack, windows):
    """Gives each block of a stack its window, where it is not None; `windows` may be empty."""
    for block, window in zip(stack.blocks, windows):        # as many, or no window at all
        if window is not None:
            with_score_changes(block.attention.attention, SlidingWindow(window))

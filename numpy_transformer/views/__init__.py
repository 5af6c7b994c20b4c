"""Everything drawn. Each function takes arrays or rows of history and returns a matplotlib Figure."""

from .attention import attention_heads, mask_pictures
from .growth import growth_curves
from .history import learning_curves, run_history
from .positions import positional_heatmap, positional_waves
from .save import check_file, check_folder, save, write

__all__ = ["attention_heads", "check_file", "check_folder", "growth_curves", "learning_curves", "mask_pictures",
           "positional_heatmap", "positional_waves", "run_history", "save", "write"]

"""Everything drawn. Each function takes arrays, a model, recorded calls or rows of history, and returns a Figure."""

from .architecture import architecture
from .attention import attention_heads, mask_pictures
from .backward import attention_backward, block_gradient_norms, gradient_norms, xray
from .duel import right_and_wrong
from .growth import growth_curves
from .history import learning_curves, run_history
from .mistakes import class_mistakes
from .numerics import memory_growth, schedules, step_sizes
from .positions import positional_heatmap, positional_waves
from .save import check_file, check_folder, large_fonts, save, write

__all__ = ["architecture", "attention_backward", "attention_heads", "block_gradient_norms", "check_file",
           "check_folder", "class_mistakes", "gradient_norms", "growth_curves", "large_fonts", "learning_curves",
           "mask_pictures", "memory_growth", "positional_heatmap", "positional_waves", "right_and_wrong",
           "run_history", "save", "schedules", "step_sizes", "write", "xray"]

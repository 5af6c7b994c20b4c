"""All figures. Each function takes arrays, a model, recorded calls or rows of a history, and returns a matplotlib Figure."""

from .architecture import architecture
from .attention import attention_heads, mask_pictures
from .backward import attention_backward, block_gradient_norms, gradient_norms, xray
from .bug_curves import bug_curves
from .class_report import class_report
from .growth import growth_curves
from .history import learning_curves, run_history
from .numerics import memory_growth, schedules, step_sizes
from .positions import positional_heatmap, positional_waves
from .save import FolderNotWritable, check_file, check_folder, large_fonts, save, write

__all__ = ["FolderNotWritable", "architecture", "attention_backward", "attention_heads", "block_gradient_norms", "bug_curves",
           "check_file", "check_folder", "class_report", "gradient_norms", "growth_curves", "large_fonts",
           "learning_curves", "mask_pictures", "memory_growth", "positional_heatmap", "positional_waves",
           "run_history", "save", "schedules", "step_sizes", "write", "xray"]

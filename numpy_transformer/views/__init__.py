"""Pictures. Each function takes arrays, a model, recorded calls or rows of a history, and returns a matplotlib Figure.

attention.py, backward.py, positions.py     attention weights and masks; gradients; positional encodings
architecture.py, boxes.py                   a whole model as nested boxes
history.py, step_plots.py, scaling.py       learning curves; numbers over steps; time and memory over a size
bug_curves.py, class_report.py              a run with and without a bug; the results of a class
drawings/                                   drawings of what the lessons are about, by name
fonts.py, save.py                           letters that the default font lacks; writing files
"""

from .architecture import architecture
from .attention import attention_heads, mask_pictures
from .backward import attention_backward, block_gradient_norms, gradient_norms, xray
from .bug_curves import bug_curves
from .class_report import class_report
from .history import learning_curves, losses_side_by_side, run_history
from .positions import positional_heatmap, positional_waves
from .save import FolderNotWritable, as_svg, check_file, check_folder, large_fonts, save, write_figure
from .scaling import growth_curves
from .step_plots import memory_growth, schedules, step_sizes

__all__ = ["FolderNotWritable", "architecture", "as_svg", "attention_backward", "attention_heads", "block_gradient_norms",
           "bug_curves",
           "check_file", "check_folder", "class_report", "gradient_norms", "growth_curves", "large_fonts",
           "learning_curves", "losses_side_by_side", "mask_pictures", "memory_growth", "positional_heatmap", "positional_waves",
           "run_history", "save", "schedules", "step_sizes", "write_figure", "xray"]

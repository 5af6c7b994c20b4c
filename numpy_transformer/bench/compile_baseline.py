"""Times training steps of the same models in PyTorch with torch.compile, in a separate process.

    python -m numpy_transformer.bench.compile_baseline NAME THREADS

It answers its parent as child_process.py describes. The model and the loss, forward and backward, are compiled; clipping and the fused
AdamW are those of the eager steps.
"""

import sys

import torch

from .child_process import answer_parent
from .configs import CONFIGS
from .torch_baseline import timed_training


def main(name, threads):
    torch.manual_seed(0)
    torch.set_num_threads(int(threads))
    answer_parent(timed_training(CONFIGS[name], torch.compile), int(threads))


if __name__ == "__main__":
    main(*sys.argv[1:])

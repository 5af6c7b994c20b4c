"""Checkpoints that others have trained: from the folders of transformers to our models, and back.

names.py explains the tables of names, from which loading, saving and comparing follow; gpt2.py, llama.py, bert.py and
t5.py hold one for each family; safetensors.py reads and writes the files.
"""

from .load import describe, load_pretrained, open_checkpoint
from .registry import Origin, remarks, rules
from .save import save_pretrained

__all__ = ["Origin", "describe", "load_pretrained", "open_checkpoint", "remarks", "rules", "save_pretrained"]

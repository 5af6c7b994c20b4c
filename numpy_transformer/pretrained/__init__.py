"""Checkpoints that others have trained: from the folders of transformers to our models, and back.

names.py explains the tables of names, from which loading, saving and comparing follow. gpt2.py, llama.py, bert.py and
t5.py have the tables and settings of the families, family.py what these have in common, and registry.py finds them.
safetensors.py, folder.py and llama2c.py read files; load.py and save.py put everything together.
"""

from .load import describe, load_pretrained, open_checkpoint
from .registry import Origin, remarks, rules
from .save import save_pretrained

__all__ = ["Origin", "describe", "load_pretrained", "open_checkpoint", "remarks", "rules", "save_pretrained"]

"""Published checkpoints: loads the folders of transformers as our models, and saves our models as such folders.

names.py explains the tables of names, from which loading, saving and comparing follow. gpt2.py, llama.py, bert.py and
t5.py hold the tables and settings of the families, family.py what they have in common, and registry.py finds the family
of a checkpoint. safetensors.py, folder.py and llama2c.py read files; load.py and save.py put everything together,
and sentences.py reads folders of sentence-transformers.
conversion_checks/ tests a loaded model for mistakes of conversion.
"""

from .load import class_and_options, load_pretrained, open_checkpoint, outline_pretrained
from .registry import Origin, build_model, remarks, rules
from .save import save_pretrained

__all__ = ["Origin", "build_model", "class_and_options", "load_pretrained", "open_checkpoint", "outline_pretrained",
           "remarks", "rules", "save_pretrained"]

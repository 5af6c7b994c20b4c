"""Published checkpoints: loads the folders of transformers as our models, and saves our models as such folders.

names.py explains the tables of names, from which loading, saving and comparing follow. gpt2.py, llama.py, bert.py and
t5.py hold the tables and settings of the families, and these those of their relatives:

decoders            mistral.py, qwen2.py, qwen3.py, gemma.py, gemma2.py, gemma3.py, smollm3.py, olmo2.py, phi3.py,
                    gpt_neox.py
with experts        mixtral.py, qwen3_moe.py, gpt_oss.py, deepseek_v3.py
encoders            roberta.py, distilbert.py, modernbert.py; of images: vit.py
encoder-decoders    mt5.py, bart.py, marian.py

family.py has what they have in common, rotary_settings.py and windows.py what decoders have; registry.py finds the family of a
checkpoint, and unsupported.py names what others need. safetensors.py, places.py, folder.py and llama2c.py find and read files,
adapters.py merges LoRA updates; load.py and save.py put everything together. sentences.py and generation_config.py read how
vectors and texts are made, and remarks.py says what is done in another way. presets.py builds each architecture at toy size.
conversion_checks/ tests a loaded model for mistakes of conversion.
"""

from .adapters import describe_adapter
from .generation_config import generation
from .load import class_and_options, load_pretrained, open_checkpoint, outline_pretrained
from .presets import checkpoint_of_preset, preset
from .registry import Origin, build_model, rules
from .remarks import remarks
from .save import is_exported, save_pretrained
from .sentences import vector_settings

__all__ = ["Origin", "build_model", "checkpoint_of_preset", "class_and_options", "describe_adapter", "generation",
           "is_exported", "load_pretrained", "open_checkpoint", "outline_pretrained", "preset", "remarks", "rules",
           "save_pretrained", "vector_settings"]

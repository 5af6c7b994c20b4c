"""Texts, tokenizers, pairs of texts, generated tasks, batches. Knows nothing of models."""

from .bpe import BytePairTokenizer
from .pairs import BOS, EOS, PAD, Pairs, frame, limit_length, pad, read_pairs, unframe
from .tasks import TASKS, Task
from .text import TextWindows, builtin_text, read_text
from .tokenizers import CharTokenizer, WordTokenizer, tokenizer_from_json

__all__ = ["BOS", "BytePairTokenizer", "CharTokenizer", "EOS", "PAD", "Pairs", "TASKS", "Task", "TextWindows",
           "WordTokenizer", "builtin_text", "frame", "limit_length", "pad", "read_pairs", "read_text",
           "tokenizer_from_json", "unframe"]

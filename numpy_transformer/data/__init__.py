"""Texts, tokenizers, generated tasks, batches. Knows nothing of models."""

from .dates import Dates
from .text import CharTokenizer, TextWindows, builtin_text, read_text

__all__ = ["CharTokenizer", "Dates", "TextWindows", "builtin_text", "read_text"]

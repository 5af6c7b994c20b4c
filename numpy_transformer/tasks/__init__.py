"""What can be trained: for each kind of model its data, tokenizers, settings, named configurations and metrics."""

from .classifier import ClassifierTask
from .language_model import LanguageModelTask
from .masked_language_model import MaskedLanguageModelTask
from .sequence_to_sequence import SequenceToSequenceTask
from .tagger import TaggerTask
from .text_to_text import TextToTextTask

TASKS = {task.name: task for task in (LanguageModelTask, SequenceToSequenceTask, ClassifierTask, TaggerTask,
                                      MaskedLanguageModelTask, TextToTextTask)}

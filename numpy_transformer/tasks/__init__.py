"""What the command `train` can train: for each kind of model its data, tokenizers, settings and metrics.

task.py, settings.py                                  the base class; a setting with its default and its limits
language_model.py, sequence_to_sequence.py            next tokens; translation
text_to_text.py, pairs.py                             several tasks for one model; what encoder-decoders have in common
classifier.py, tagger.py                              the class of a text; named entities
masked_language_model.py, encoder.py                  masked words; what encoders have in common
model_settings.py, options.py                         settings that several kinds share; the options of a model
runs.py, saving.py                                    a trained run, loaded; a model of a script, saved as a run
imported_runs.py, fine_tuning.py                      published models as runs; starting from other weights
"""

from .classifier import ClassifierTask
from .language_model import LanguageModelTask
from .masked_language_model import MaskedLanguageModelTask
from .sequence_to_sequence import SequenceToSequenceTask
from .tagger import TaggerTask
from .text_to_text import TextToTextTask

TASKS = {task.name: task for task in (LanguageModelTask, SequenceToSequenceTask, ClassifierTask, TaggerTask,
                                      MaskedLanguageModelTask, TextToTextTask)}

"""Data for training. In reading order:

text.py, tokenizers.py, bpe.py                      running text; tokens by character, word or byte pair
pairs.py, generated_pairs.py, dates.py              a source and its target; generated tasks
text_to_text.py                                     four tasks for one model
labeled.py, label_files.py                          texts with a class
acl_imdb.py, film_reviews.py                        film reviews, real and generated
stories.py                                          small stories, and a checker of what a model writes
review_archive.py, review_cache.py                  reading and keeping the real ones
tagged.py, conll.py, entities.py                    sentences with named entities, and their scores
masked.py                                           texts with masked words
digits.py                                           small pictures of the ten digits
reader.py, batches.py, splits.py                    texts become ids; padded batches; validation sets
pretrained_tokenizer.py, pretrained_reader.py       the tokenizers of published models
tokenizer_files.py, tokenizer_settings.py           their older files, and the files beside them
llama2c_tokenizer.py                                the tokenizer of llama2.c
baselines.py, bigrams.py                            what a model has to beat
plurals.py                                          numbers with their nouns
"""

from .baselines import BagOfWords
from .batches import LabeledTexts, TaggedTexts
from .bigrams import Bigrams
from .bpe import BytePairTokenizer
from .conll import read_conll
from .digits import draw_digits
from .entities import entity_scores, scores_table, spans, to_bio
from .film_reviews import reviews
from .generated_pairs import GENERATED_PAIRS, GeneratedPairs
from .labeled import Labeled, read_labeled
from .llama2c_tokenizer import StoryTokenizer
from .masked import MaskedWindows, corrupt
from .pairs import BOS, EOS, PAD, Marks, Pairs, frame, frame_source, limit_length, marks, pad, read_pairs, unframe
from .pretrained_reader import PretrainedReader
from .pretrained_tokenizer import PretrainedTokenizer
from .reader import KerasReader, TextReader
from .tagged import tagged_sentences
from .text import TextWindows, builtin_text, read_text
from .text_to_text import generate_text_to_text
from .tokenizers import (CharTokenizer, MixedTokenizer, SpacedTokenizer, WordTokenizer, read_prompt, token_name,
                         tokenizer_from_json)

__all__ = ["BOS", "BagOfWords", "Bigrams", "BytePairTokenizer", "CharTokenizer", "EOS", "KerasReader", "Labeled",
           "LabeledTexts", "Marks", "MaskedWindows", "MixedTokenizer", "PAD", "Pairs", "PretrainedReader",
           "PretrainedTokenizer", "SpacedTokenizer", "StoryTokenizer", "GENERATED_PAIRS", "TaggedTexts", "GeneratedPairs",
           "TextReader", "TextWindows", "WordTokenizer", "builtin_text", "corrupt", "draw_digits", "entity_scores",
           "frame", "frame_source", "limit_length", "marks", "pad", "read_conll", "read_labeled", "read_pairs", "read_prompt",
           "read_text", "reviews", "scores_table", "spans", "tagged_sentences", "generate_text_to_text", "to_bio",
           "token_name", "tokenizer_from_json", "unframe"]

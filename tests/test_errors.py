"""Errors name the class that a script has called, and say what was wrong with arguments of the wrong kind."""

import re

import numpy as np
import pytest

import numpy_transformer as nt

IDS = np.array([[1, 2, 3]])
X = np.ones((2, 3, 9))


class Pair(nt.Module):
    """A component of a script: inside it, the script calls Linear."""

    def __init__(self, width):
        self.linear = nt.Linear(width, 4)

    def forward(self, x):
        return self.linear(x)

    def backward(self, dy):
        return self.linear.backward(dy)


MODEL = nt.CausalLanguageModel(10, 8, 2, 1)
TRANSLATOR = nt.EncoderDecoder(10, 10, 8, 2, 1, 8)
CLASSIFIER = nt.SequenceClassifier(10, 8, 2, 1)


@pytest.mark.parametrize("call, kind, sentence", [
    (lambda: nt.SelfAttention(d_model=10, num_heads=3), ValueError, "SelfAttention: d_model = 10 is not divisible by num_heads"),
    (lambda: nt.EncoderBlock(10, 3, 8), ValueError, "EncoderBlock: d_model = 10 is not divisible"),
    (lambda: nt.Encoder(2, 10, 3, 8), ValueError, "Encoder: d_model = 10 is not divisible"),
    (lambda: nt.CausalLanguageModel(10, 10, 3, 1), ValueError, "CausalLanguageModel: d_model = 10 is not divisible"),
    (lambda: nt.SequenceClassifier(10, 10, 3, 1), ValueError, "SequenceClassifier: d_model = 10 is not divisible"),
    (lambda: nt.make_model(9, 9, d_model=10, h=3), ValueError, "EncoderDecoder: d_model = 10 is not divisible"),
    (lambda: nt.Linear("a", 3), ValueError, "Linear: d_in must be a whole number of at least 1, got 'a'"),
    (lambda: nt.SelfAttention("a", 3), ValueError, "SelfAttention: d_model must be a whole number of at least 1, got 'a'"),
    (lambda: nt.CausalLanguageModel(10, "8", 2, 1), ValueError, "CausalLanguageModel: d_model must be a whole number"),
    (lambda: nt.Dropout("x"), TypeError, "Dropout: p must be a number, got 'x'"),
    (lambda: nt.EncoderBlock(8, 2, 8, dropout="x"), TypeError, "EncoderBlock: p must be a number, got 'x'"),
    (lambda: nt.CrossEntropyLoss("x"), TypeError, "CrossEntropyLoss: label_smoothing must be a number"),
    (lambda: nt.Adam(MODEL.parameters(), "x"), TypeError, "lr must be a number, got 'x'"),
    (lambda: nt.Adam(MODEL.parameters(), eps=None), TypeError, "eps must be a number, got None"),
    (lambda: nt.CosineSchedule(None, 1e-3, 0, "3", 9), TypeError, "warmup must be a number, got '3'"),
    (lambda: nt.SelfAttention(8, 2)(X), ValueError, r"SelfAttention: the last dimension must be .* 8, got shape \(2, 3, 9\)"),
    (lambda: nt.EncoderBlock(8, 2, 8)(X), ValueError, r"EncoderBlock: the last dimension must be .* 8, got shape \(2, 3, 9\)"),
    (lambda: nt.Linear(8, 2)(X), ValueError, r"Linear: the last dimension must be d_in = 8, got shape \(2, 3, 9\)"),
    (lambda: nt.FeedForward(8, 2)([[1.0]]), TypeError, "FeedForward takes NumPy arrays, got list"),
    (lambda: Pair("a"), ValueError, "Linear: d_in must be a whole number"),
    (lambda: Pair(8)(X), ValueError, "Linear: the last dimension must be d_in = 8"),
    (lambda: nt.Embedding(10, 4)([[1, 2], [3]]), ValueError, "Embedding: token ids have rows of different lengths; pad them"),
    (lambda: CLASSIFIER([[1, 2], [3]]), ValueError, "SequenceClassifier: token ids have rows of different lengths"),
    (lambda: CLASSIFIER(IDS * 1.0), TypeError, "SequenceClassifier: token ids must be integers, got dtype float64; convert them"),
    (lambda: CLASSIFIER("a text"), TypeError, "SequenceClassifier: token ids must be integers, .* with a tokenizer"),
    (lambda: MODEL(IDS[:0]), ValueError, r"CausalLanguageModel: ids have shape \(0, 3\): wanted .* with B from 1 on"),
    (lambda: TRANSLATOR(IDS[:0], IDS[:0]), ValueError, r"EncoderDecoder: an array of shape \(0, 3, 8\) holds no token; pass"),
    (lambda: nt.SelfAttention(8, 2)(X[:0, :, :8]), ValueError, r"SelfAttention: an array of shape \(0, 3, 8\) holds no token"),
    (lambda: MODEL(IDS * 1.0), TypeError, "CausalLanguageModel: token ids must be integers, got dtype float64"),
    (lambda: MODEL(IDS + 9), IndexError, "CausalLanguageModel: token ids must lie in 0 to 9"),
    (lambda: MODEL([[1, 2], [3]]), ValueError, "CausalLanguageModel: token ids have rows of different lengths; pad them"),
    (lambda: MODEL("a text"), TypeError, "CausalLanguageModel: token ids must be integers, .* with a tokenizer"),
    (lambda: MODEL(np.zeros((1, 1025), int)), ValueError, r"CausalLanguageModel: ids have shape \(1, 1025\): wanted \(B, T\)"),
    (lambda: TRANSLATOR([[1, 2], [3]], IDS), ValueError, "EncoderDecoder: token ids have rows of different lengths"),
    (lambda: TRANSLATOR(IDS, [[1, 2], [3]]), ValueError, "EncoderDecoder: token ids have rows of different lengths"),
    (lambda: TRANSLATOR(IDS, IDS[0]), ValueError, "EncoderDecoder: source .* are not batches of the same size"),
    (lambda: nt.FeedForward(4, "8"), ValueError, "FeedForward: d_ff must be a whole number of at least 1, got '8'"),
    (lambda: nt.SwiGLU("4", 8), ValueError, "SwiGLU: d_model must be a whole number of at least 1, got '4'"),
    (lambda: nt.Encoder(1, 8, 2, 0), ValueError, "Encoder: d_ff must be a whole number of at least 1, got 0"),
    (lambda: nt.Encoder(1, 8, 2, 8, dropout=2), ValueError, "Encoder: dropout p = 2 must lie in"),
    (lambda: nt.Encoder(1, 8, 2, 8)(X[..., :8], np.ones((3, 5), bool)), ValueError, "Encoder: a mask of shape .* does not"),
    (lambda: nt.Decoder(1, 8, 2, 8)(X[..., :8], np.ones((3, 3))), TypeError, "Decoder: a mask must be boolean"),
    (lambda: nt.Decoder(1, 8, 2, 8)(X[0, 0, :8]), ValueError, r"Decoder: attention takes \(B, T, d_model\)"),
    (lambda: nt.combine_masks(np.ones(3, bool)), ValueError, "a mask is 2-D"),
    (lambda: nt.CrossEntropyLoss()(np.ones((2, 3)), [1]), ValueError, "CrossEntropyLoss: targets have shape"),
    (lambda: TRANSLATOR(IDS * 1.0, IDS), TypeError, "EncoderDecoder: token ids must be integers"),
    (lambda: nt.CrossEntropyLoss()(np.ones((2, 3)), [0.5, 1.0]), TypeError, "CrossEntropyLoss: targets must be integers")])
def test_an_error_begins_with_the_class_that_was_called(call, kind, sentence):
    with pytest.raises(kind) as info:
        call()
    assert re.match(sentence, str(info.value)), str(info.value)

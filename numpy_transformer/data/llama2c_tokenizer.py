"""The tokenizer of llama2.c's story models: pieces with scores, of which the best pair is merged first."""

import heapq
import json
import re
import struct
from functools import cached_property
from pathlib import Path

import numpy as np

from ..file_checks import check_form
from .bpe import check_ids, check_unicode

BOS, EOS = 1, 2                                 # after <unk> = 0
FIRST_BYTE = 3                                  # ids 3 to 258 are the bytes, which stand for unknown characters
FIRST_PIECE = FIRST_BYTE + 256
SPACE = "▁"                                     # stands for a space in tokenizer.json
BYTE = re.compile("<0x([0-9A-F]{2})>")


class StoryTokenizer:
    """Turns text into ids as llama2.c does: a space is put before it, each character becomes a piece, or its bytes, and
    then the two neighbors whose joined piece has the highest score are merged, the leftmost ones first, until no two
    neighbors form a piece.

    Parameters:
        pieces : list of str; the first 259 are <unk>, the begin, the end, and the bytes <0x00> to <0xFF>
        scores : list of as many floats

    Raises:
        ValueError if pieces and scores differ in number, or the bytes are not where they belong.

    Source: run.c and tokenizer.py of llama2.c; Kudo and Richardson 2018 (SentencePiece) for the scores.
    """

    begin, stop = [BOS], [BOS, EOS]             # a new story begins with BOS, which therefore ends the one before

    def __init__(self, pieces, scores):
        self.pieces, self.scores = list(pieces), list(scores)
        bytes_found = [BYTE.fullmatch(piece) for piece in self.pieces[FIRST_BYTE:FIRST_PIECE]]
        if len(self.pieces) != len(self.scores) or len(bytes_found) < 256 or not all(bytes_found):
            raise ValueError(f"{len(self.pieces):,} pieces with {len(self.scores):,} scores are not a tokenizer of "
                             "llama2.c, whose pieces 3 to 258 are the bytes <0x00> to <0xFF>; pass those of its "
                             "tokenizer.bin")
        self.ids = {}
        for i, piece in enumerate(self.pieces):
            self.ids.setdefault(piece, i)

    @classmethod
    def read(cls, path):
        """Returns the tokenizer in a file tokenizer.bin: the longest length, then each piece as score, length, bytes."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; name the tokenizer.bin of the model") from error
        pieces, scores, at = [], [], 4
        try:
            while at < len(data):
                score, length = struct.unpack_from("<fi", data, at)
                at += 8 + length
                scores.append(score)
                pieces.append(data[at - length:at].decode())
                if length < 0 or at > len(data):
                    raise ValueError(f"a piece of {length} bytes")
            return cls(pieces, scores)
        except (ValueError, struct.error) as error:
            raise ValueError(f"{str(path)!r} is not a tokenizer of llama2.c, or is damaged (at byte {at:,}: {error}); name "
                             "the tokenizer.bin that belongs to the model") from error

    def __repr__(self):
        return f"StoryTokenizer(vocab_size={self.vocab_size})"

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        check_unicode(text)
        ids = []
        for character in f" {text}" if text else "":
            known = self.ids.get(character)
            ids += [FIRST_BYTE + byte for byte in character.encode()] if known is None else [known]
        return np.array(self.merge(ids), np.intp)

    def merge(self, ids):
        """Returns the ids after all merges. A merged pair stays at the place of its left id; the right one becomes None."""
        ids = list(ids)
        before = list(range(-1, len(ids) - 1))
        after = list(range(1, len(ids) + 1))
        waiting = []

        def consider(left):
            right = after[left] if left >= 0 else len(ids)
            joined = self.ids.get(self.pieces[ids[left]] + self.pieces[ids[right]]) if right < len(ids) else None
            if joined is not None:
                heapq.heappush(waiting, (-self.scores[joined], left, right, joined, ids[left], ids[right]))

        for left in range(len(ids)):
            consider(left)
        while waiting:
            _, left, right, joined, *pair = heapq.heappop(waiting)
            if [ids[left], ids[right]] != pair:                     # one of them has been merged since
                continue
            ids[left], ids[right] = joined, None
            after[left] = after[right]
            if after[left] < len(ids):
                before[after[left]] = left
            consider(before[left])
            consider(left)
        return [i for i in ids if i is not None]

    def decode(self, ids):
        """Returns the text of ids, without the space that `encode` puts before it."""
        ids = [i for i in check_ids(ids, self.vocab_size) if i not in (BOS, EOS)]
        return b"".join(map(self.bytes_of, ids)).decode(errors="replace").removeprefix(" ")

    def name(self, token):
        """Returns the text of an id by itself."""
        return self.pieces[token].strip() or self.pieces[token]

    def bytes_of(self, token):
        is_byte = FIRST_BYTE <= token < FIRST_PIECE
        return bytes([token - FIRST_BYTE]) if is_byte else self.pieces[token].encode()

    @cached_property
    def files(self):
        """The files of this tokenizer in the folder of a published model: {name: content}."""
        names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "clean_up_tokenization_spaces": False}
        return {"tokenizer.json": json.dumps(self.definition(), ensure_ascii=False),
                "tokenizer_config.json": json.dumps(names | config, indent=2) + "\n",
                "generation_config.json": json.dumps({"bos_token_id": BOS, "eos_token_id": self.stop}, indent=2) + "\n"}

    def definition(self):
        """Returns the content of tokenizer.json: a BPE whose merges are all pairs of pieces that form a piece, those of the
        highest score first. There the space is written as ▁.
        """
        texts = ["<unk>", "<s>", "</s>", *(piece.replace(" ", SPACE) for piece in self.pieces[FIRST_BYTE:])]
        vocab = {}
        for i, text in enumerate(texts):
            vocab.setdefault(text, i)
        merges = []
        for i in sorted(self.ids.values(), key=lambda i: -self.scores[i]):
            piece = self.pieces[i]
            pairs = ((piece[:n], piece[n:]) for n in range(1, len(piece) if i >= FIRST_PIECE else 0))
            merges += [[part.replace(" ", SPACE) for part in pair] for pair in pairs if self.ids.keys() >= {*pair}]
        special = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                    "special": True} for i, text in enumerate(texts[:FIRST_BYTE])]
        begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
        replaced = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
        restored = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
        return {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "pre_tokenizer": None,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replaced]},
            "post_processor": {
                "type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [restored, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                         {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": merges}}

    def to_json(self):
        return {"kind": "llama2.c", "pieces": self.pieces, "scores": self.scores}

    @classmethod
    def from_json(cls, data):
        check_form(data, {"pieces": [str], "scores": [float]}, "the tokenizer")
        return cls(data["pieces"], data["scores"])

"""The reader of published encoders: the tokenizer's own ids, between the ids that the model expects around a text."""

import re

from .reader import TextReader


class PretrainedReader(TextReader):
    """Turns texts into ids as the published model reads them: [CLS] text [SEP] for BERT, <s> text </s> for RoBERTa.

    Parameters:
        tokens : PretrainedTokenizer
        max_len : int, the largest number of ids, special ids included; longer texts are truncated at the end

    Attributes: those of TextReader; its special ids are the tokenizer's.

    Raises:
        ValueError if the tokenizer puts nothing before a text, or has no padding.
    """

    offset = 0
    limit = "the model reads no more"

    def __init__(self, tokens, max_len):
        missing = [name for name, given in (("[CLS]", tokens.begin), ("[PAD]", "pad" in tokens.special)) if not given]
        if missing:
            raise ValueError(f"the tokenizer has no {' and no '.join(missing)}, which an encoder needs; its file "
                             "tokenizer.json or special_tokens_map.json does not belong to this model")
        super().__init__(tokens, max_len, lower=False)
        self.cls_id, self.end = tokens.begin[0], tuple(tokens.end)
        self.pad_id, self.sep_id, self.mask_id = (tokens.special.get(name) for name in ("pad", "sep", "mask"))
        self.special_names = {i: tokens.token(i) for i in sorted({*tokens.special.values(), *tokens.begin, *tokens.end})}

    def __repr__(self):
        return f"PretrainedReader({self.tokens!r}, max_len={self.max_len})"

    @property
    def not_words(self):
        return list(self.special_names)

    def normalize(self, text):
        """Returns the text itself, because the tokenizer normalizes it; empty if there is nothing but whitespace."""
        return text if text.strip() else ""

    def read_words(self, words):
        """Returns (ids, positions) as TextReader does; byte-level tokenizers know most words with a space before them."""
        return super().read_words([f" {word}" for word in words])

    def has_mask(self, text):
        return self.mask_id is not None and bool(self.mask_pattern.search(text))

    def read_masked(self, text):
        """Returns the ids of a text with [MASK], or the model's own token for it, in place of a word.

        Raises: ValueError without a mask, or if the text is too long.
        """
        if self.mask_id is None:
            raise ValueError("the tokenizer of this model has no token for a masked word; import a masked language model")
        return super().read_masked(text)

    def masked_pieces(self, text):
        mask = self.special_names[self.mask_id]
        return [self.pieces(self.mask_pattern.sub(lambda _: mask, text))]       # as a whole: the mask may include a space

    @property
    def mask_pattern(self):
        return re.compile(rf"\[mask\]|{re.escape(self.special_names[self.mask_id])}", re.IGNORECASE)

    def name(self, token):
        return self.special_names.get(token) or self.tokens.name(token)

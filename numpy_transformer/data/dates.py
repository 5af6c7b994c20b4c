"""A small translation task: dates in four written forms, to be read as 1999-03-03."""

import datetime

import numpy as np

from .text import CharTokenizer

PAD, BOS, EOS = 0, 1, 2
MONTHS = ("January February March April May June July August September October November December").split()
FIRST, LAST = 1950, 2049


def written_forms(date):
    """3 March 1999; March 3, 1999; 3/3/99 (day first); the 3rd of March 1999."""
    day, month = date.day, MONTHS[date.month - 1]
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return (f"{day} {month} {date.year}", f"{month} {day}, {date.year}",
            f"{day}/{date.month}/{date.year % 100:02d}", f"the {day}{ending} of {month} {date.year}")


class Dates:
    """Every day from 1950 to 2049 in all four forms; some years are held out of training.

    Ids 0, 1 and 2 are padding, begin and end; sources are padded on the right.

    Parameters:
        batch_size, seed : of the training batches and the choice of years; a batch depends on seed and step alone
        held_out : how many of the 100 years
    """

    def __init__(self, batch_size, seed, held_out=10):
        self.batch_size, self.seed = batch_size, seed
        years = np.arange(FIRST, LAST + 1)
        self.held_out_years = np.sort(np.random.default_rng([seed, 1]).choice(years, held_out, replace=False))
        days = [datetime.date.fromordinal(n) for n in range(datetime.date(FIRST, 1, 1).toordinal(),
                                                            datetime.date(LAST, 12, 31).toordinal() + 1)]
        self.texts = [form for day in days for form in written_forms(day)]
        answers = [day.isoformat() for day in days for _ in range(4)]
        self.source_tokens = CharTokenizer("".join(self.texts[:4 * 366]) + "0123456789")
        self.target_tokens = CharTokenizer("0123456789-")
        self.sources = self.encode(self.source_tokens, self.texts)
        self.targets = self.encode(self.target_tokens, answers)
        years = np.repeat([day.year for day in days], 4)
        self.test = np.flatnonzero(np.isin(years, self.held_out_years))
        self.training = np.flatnonzero(~np.isin(years, self.held_out_years))

    @staticmethod
    def encode(tokens, texts):
        """(N, longest + 2): begin, the characters, end, padding."""
        rows = np.full((len(texts), max(map(len, texts)) + 2), PAD)
        for row, text in zip(rows, texts):
            row[:len(text) + 2] = [BOS, *tokens.encode(text) + 3, EOS]
        return rows

    @property
    def src_vocab(self):
        return self.source_tokens.vocab_size + 3

    @property
    def tgt_vocab(self):
        return self.target_tokens.vocab_size + 3

    def batch(self, step):
        """((sources, targets so far), next targets) of a training step."""
        rng = np.random.default_rng([self.seed, 2, step])
        return self.examples(rng.choice(self.training, self.batch_size))

    def examples(self, rows):
        source, target = self.sources[rows], self.targets[rows]
        source = source[:, :int((source != PAD).sum(1).max())]
        return (source, target[:, :-1]), target[:, 1:]

    def decode(self, ids):
        """The text of target ids up to their end."""
        ids = list(ids)
        return self.target_tokens.decode([i - 3 for i in ids[:ids.index(EOS) if EOS in ids else None] if i > EOS])

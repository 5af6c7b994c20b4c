"""Numbers with their nouns in messages."""


def counted(number, noun):
    """Returns "1 text", "0 texts" or "1,200 texts" for the noun "text"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

"""Tiny languages in which one word depends on another one some words away, so that attention has something to learn.

`agreement`: the verb belongs to the subject, not to the noun before it: "the cats near the dog sleep".
`translation`: an adjective of color changes its place, and the article agrees with the noun:
    "the black cow sleeps" is "la vache noire dort", "the small dog sings" is "le petit chien chante".
`opinions`: "not" reverses the word after it, and what follows "but" decides: "good but not funny" is negative.
"""

SUBJECTS = {"cat": "sleep", "dog": "bark", "bird": "sing"}              # each kind of animal has its own verb
RELATIONS = ["near", "behind"]
NUMBERS_OF_RELATIONS = [0, 0, 1, 1, 1, 1, 1, 2]                      # a second one is rare
AGREEMENT_WORDS = ["the", "cat", "cats", "dog", "dogs", "bird", "birds", "near", "behind", "sleep", "sleeps", "bark",
                   "barks", "sing", "sings", "today", "."]

NOUNS = {"cat": ("le", "chat"), "dog": ("le", "chien"), "cow": ("la", "vache"), "mouse": ("la", "souris")}
ADJECTIVES = {"black": ("noir", "noire"), "white": ("blanc", "blanche"), "small": ("petit", "petite")}
VERBS = {"sleeps": "dort", "sings": "chante"}
BEFORE_THE_NOUN = "small"
TRANSLATION_WORDS = ["the", *ADJECTIVES, *NOUNS, *VERBS]
FRENCH_WORDS = ["le", "la", *(word for pair in ADJECTIVES.values() for word in pair),
                *(noun for _, noun in NOUNS.values()), *VERBS.values()]

GOOD, BAD = ["good", "funny", "great"], ["bad", "dull", "poor"]
THINGS = ["film", "plot", "music"]
OPINION_WORDS = ["the", *THINGS, "was", "not", *GOOD, *BAD, "but"]


def draw_word(rng, words):
    return words[rng.integers(len(words))]


def noun_phrase(rng):
    """Draws (noun, its verb); a plural noun has the plural verb."""
    noun = draw_word(rng, list(SUBJECTS))
    if rng.random() < 0.5:
        return f"{noun}s", SUBJECTS[noun]
    return noun, f"{SUBJECTS[noun]}s"


def agreement(rng):
    """Draws a sentence: "today the cats near the dog sleep ."."""
    subject, verb = noun_phrase(rng)
    front = "today " if rng.random() < 0.3 else ""
    between = ""
    count = draw_word(rng, NUMBERS_OF_RELATIONS)
    for _ in range(count):
        between += f" {draw_word(rng, RELATIONS)} the {noun_phrase(rng)[0]}"
    return f"{front}the {subject}{between} {verb} ."


def translation(rng):
    """Draws an English sentence."""
    adjective = f"{draw_word(rng, list(ADJECTIVES))} " if rng.random() < 0.8 else ""
    return f"the {adjective}{draw_word(rng, list(NOUNS))} {draw_word(rng, list(VERBS))}"


def translate(text):
    """Returns the French sentence, or None if the English one is not of this language."""
    words = text.split()
    adjective = words[1] if len(words) == 4 else None
    well_formed = (len(words) in (3, 4) and words[0] == "the" and words[-2] in NOUNS and words[-1] in VERBS
                   and (adjective is None or adjective in ADJECTIVES))
    if not well_formed:
        return None
    article, noun = NOUNS[words[-2]]
    phrase = [noun]
    if adjective:
        french = ADJECTIVES[adjective][article == "la"]
        phrase = [french, noun] if adjective == BEFORE_THE_NOUN else [noun, french]
    return " ".join([article, *phrase, VERBS[words[-1]]])


def opinion(rng):
    """Draws an opinion such as "the film was good but not funny"."""
    start = f"the {draw_word(rng, THINGS)} was " if rng.random() < 0.7 else ""
    parts = [("not " if rng.random() < 0.5 else "") + draw_word(rng, GOOD + BAD) for _ in range(1 + (rng.random() < 0.5))]
    return start + " but ".join(parts)


def judge(text):
    """Returns "positive" or "negative", or None for a text that is no opinion."""
    *_, last = text.split(" but ")
    words = last.split()
    if not words or words[-1] not in GOOD + BAD:
        return None
    is_good = (words[-1] in GOOD) != (words[-2:-1] == ["not"])
    return "positive" if is_good else "negative"

"""Small stories, generated from a seed, and a checker that says what is wrong with a story that a model has written.

Somebody owns a thing, loses it at a place, meets a helper, and finds it again at the same place. PLOT lists the sentences in
their order, and the tables below it list what may stand in them. In a sentence, {h.he} is a form of the hero, {f.} of the
helper, {t.} of the thing, {d.} of the day, {p.} of the place, and {w.} of another place where the hero looks first. The
generator replaces each form by the right one, the checker by all forms of its kind, so that it can read wrong ones, too:

    story(rng)      a story and its facts: who lost what, where it was found, and who helped
    faults(text)    the rules that a text breaks, such as a wrong pronoun, or a thing found where it was not lost
"""

import functools
import re
from dataclasses import dataclass
from types import SimpleNamespace

PLOT = (                                                    # part of the story, share of the stories that have it, sentences
    ("opening", 1, (
        "Once upon a time there {h.was} {h.intro} who lived {home}.",
        "Once upon a time, {h.intro} lived {home}.",
        "Long ago, {h.intro} lived {home}.",
        "There once {h.was} {h.intro} who lived {home}.")),
    ("treasure", 1, (
        "Nothing was dearer to {h.him} than {h.his} {t.name}.",
        "{h.He} had {t.a} that {t.was} a gift from {h.his} grandmother.",
        "More than anything, {h.he} loved {h.his} {t.name}.",
        "A friend had given {h.him} {t.a}, and {h.he} carried {t.them} everywhere.")),
    ("wish", 1, (
        "One {weather} {d.time}, {h.he} set out to {t.use}.",
        "On a {weather} {d.time} in {month}, {h.name} set out to {t.use}.",
        "{h.Name} wanted to {t.use}, so one {d.time} {h.he} set out.")),
    ("loss", 1, (
        "{h.He} stopped {p.where} to {rest}, and the {t.noun} stayed behind.",
        "But while {h.he} rested {p.where}, the {t.noun} slipped out of {h.his} bag.",
        "But {h.he} stumbled {p.where}, and the {t.noun} fell out of {h.his} bag.",
        "Because {h.he} {h.was} tired, {h.he} slept {p.where}, and forgot the {t.noun} there.")),
    ("notice", 0.3, (
        "When {h.he} came {back}, the {t.noun} {t.was} gone.",
        "An hour later {h.he} opened {h.his} bag, but {t.they} {t.was} not there.",
        "After a while {h.name} noticed that the {t.noun} {t.was} missing.")),
    ("sorrow", 0.2, (
        "{h.He} {h.was} so {sad} that {h.he} {cried}.",
        "{h.The} sat down and wept.",
        "Without {t.them}, {h.he} felt {sad} and lost.")),
    ("search", 0.4, (
        "First {h.he} looked {w.where}, but {t.they} {t.was} not there.",
        "{h.He} searched {w.where} until it was dark, but found nothing.",
        "{h.Name} ran to {w.spot} and looked everywhere, but in vain.")),
    ("meeting", 1, (
        "Then {f.intro} came down the road.",
        "At that moment {h.he} met {f.intro}.",
        "{f.Intro} saw {h.him} and stopped.")),
    ("question", 0.2, (
        '"Why are you so {sad}?" asked {f.name}.',
        '"What are you looking for?" asked {f.the}.',
        '"Can {f.i} help you?" asked {f.name}.')),
    ("answer", 1, (
        '"{h.I} have lost {h.my} {t.name}," said {h.name}.',
        '"{h.My} {t.name} {t.is} gone," answered {h.the}.',
        '"{h.I} cannot find {h.my} {t.name}," said {h.the}.')),
    ("advice", 1, (
        '"{f.I} saw you {p.where} this {d.time}," said {f.name}.',
        '"Where did you rest?" asked {f.name}, and {h.name} remembered {p.spot}.',
        '"Let us look {p.where} together," said {f.the}.')),
    ("obstacle", 0.2, (
        "The way was dark, but {f.name} carried a torch.",
        "A fallen tree lay across the path, so they climbed over it.",
        "A cold wind was blowing, but they did not turn back.",
        "On the way it began to {storm}, but {f.name} {f.was} not afraid.",
        "An angry dog barred the way, until {f.name} spoke to it gently.")),
    ("finding", 1, (
        "They went to {p.spot} and found the {t.name} there.",
        "Soon they found the {t.name} {p.where}.",
        "They went back, and the {t.name} {t.was} still lying {p.where}.",
        "At last they came to {p.spot}, where {h.name} found the {t.name}.")),
    ("thanks", 0.4, (
        "{h.Name} thanked {f.name} and gave {f.him} {gift}.",
        '"How can {h.i} thank you?" asked {h.name}.',
        "{h.The} {h.was} so happy that {h.he} gave {f.the} {gift}.",
        '"Thank you, {f.name}," said {h.the}, and {h.his} tears were forgotten.')),
    ("fulfilment", 0.2, (
        "The next {d.time}, {h.name} could {t.use} at last.",
        "Now {h.he} could {t.use}, and {f.name} came along.")),
    ("ending", 1, (
        "From that day on, {h.the} and {f.the} were friends.",
        "They remained friends for the rest of their lives.",
        "And they never forgot the day when the {t.noun} {t.was} lost.")))

WORDS = {                                                   # what may stand for {home} and so on
    "weather": ("bright", "cold", "foggy", "rainy", "sunny", "windy"),
    "month": ("April", "June", "August", "October"),
    "home": ("at the edge of a forest", "in a quiet valley", "on an island", "near the sea", "in a small village",
             "in an old tower"),
    "rest": ("drink some water", "eat an apple", "pick flowers", "watch the clouds"),
    "back": ("home", "to the village", "to the crossroads"),
    "sad": ("sad", "unhappy", "sorrowful"),
    "cried": ("began to cry", "could not sleep", "could not speak"),
    "storm": ("rain", "hail"),
    "gift": ("a ripe pear", "an apple cake", "a jar of honey", "an orange", "half of the bread")}
TIMES = "morning afternoon evening".split()
HE, SHE = "Adam Ben Felix Hugo Leo Max Oscar Tom".split(), "Ada Clara Emma Ida Lily Mia Nora Rosa".split()
KINDS = {"bear": "bears", "duck": "ducks", "fox": "foxes", "goose": "geese", "hare": "hares", "hedgehog": "hedgehogs",
         "mouse": "mice", "otter": "otters", "owl": "owls", "baker": "bakers", "farmer": "farmers", "sailor": "sailors",
         "boy": "boys", "prince": "princes", "girl": "girls", "princess": "princesses"}
ONLY = {"boy": HE, "prince": HE, "girl": SHE, "princess": SHE}
MANNERS = "clever eager gentle honest idle little shy young".split()
THINGS = {                                                  # and what one does with them; those on -s are pairs
    "basket": "carry berries in it", "drum": "beat it at the fair", "flute": "play it at the fair",
    "key": "open a gate with it", "kite": "fly it from a hill", "lantern": "hang it above a door",
    "letter": "read it to a friend", "map": "cross the sea with it", "umbrella": "dance under it",
    "boots": "dance in them", "gloves": "show them to a friend", "skates": "race in them"}
LOOKS = "blue green lovely new old orange red yellow".split()
PLACES = {"bridge": "under", "oak": "under", "mill": "behind", "barn": "behind", "orchard": "in", "meadow": "in",
          "well": "beside", "waterfall": "beside", "hill": "on", "beach": "on", "lake": "near", "church": "near"}
PRONOUNS = {"he": "he him his was I my", "she": "she her her was I my", "they": "they them their were we our"}


@dataclass(frozen=True)
class Facts:
    """What happened in a story. Each value stands in its text, but `searched` can be None."""

    hero: str                                               # "Rosa" or "Leo and Mia"
    thing: str                                              # "red kite"
    place: str                                              # "under the bridge": lost there, and found there
    helper: str
    searched: str | None                                    # the place where the hero looked in vain


@dataclass(frozen=True)
class Story:
    text: str
    facts: Facts


@dataclass(frozen=True)
class Fault:
    """A rule that a text breaks. `sentence` is the number of the sentence from 0, or None if the fault is a missing part."""

    sentence: int | None
    kind: str                       # "grammar", "order", "agreement", "pronoun", "name", "thing", "place" or "time"
    message: str


def story(rng):
    """Returns a Story of 60 to 120 words, drawn with a NumPy generator."""
    told = Story("", None)
    while not 60 <= len(told.text.split()) <= 120:
        told = draw_story(rng)
    return told


def draw_story(rng):
    hero_kind, helper_kind = draw(rng, KINDS, 2)
    names = draw_names(rng, hero_kind, ())
    hero = make_character(pick(rng, MANNERS), hero_kind, names)
    helper = make_character(pick(rng, MANNERS), helper_kind, draw_names(rng, helper_kind, names))
    thing = make_thing(pick(rng, LOOKS), pick(rng, list(THINGS)))
    day = with_capitals(time=pick(rng, TIMES))
    place, elsewhere = map(make_place, draw(rng, PLACES, 2))
    words = {name: pick(rng, values) for name, values in WORDS.items()}
    told, searched = [], None
    for part, share, choices in PLOT:
        if rng.random() < share:
            sentence = pick(rng, choices)
            told.append(sentence.format(h=hero, f=helper, t=thing, d=day, p=place, w=elsewhere, **words))
            if part == "search":
                searched = elsewhere.where if "w.where" in sentence else elsewhere.spot
    return Story(" ".join(told), Facts(hero.name, thing.name, place.where, helper.name, searched))


def pick(rng, items):
    return items[int(rng.random() * len(items))]


def draw(rng, items, count):
    """Returns `count` different items."""
    items = list(items)
    return [items.pop(int(rng.random() * len(items))) for _ in range(count)]


def draw_names(rng, kind, taken):
    """Returns one name that is not taken, or two in a fifth of the cases."""
    return draw(rng, [name for name in ONLY.get(kind, HE + SHE) if name not in taken], 2 if rng.random() < 0.2 else 1)


def article(word):
    return "an" if word[0] in "aeio" or word in ("honest", "umbrella") else "a"


def make_character(manner, kind, names):
    """Returns the forms of a character, such as he, him and his, or of a pair: they, them and their."""
    if len(names) == 2:
        before, noun, pronouns = "two", KINDS[kind], PRONOUNS["they"]
    else:
        before, noun, pronouns = article(manner), kind, PRONOUNS["he" if names[0] in HE else "she"]
    forms = dict(zip(("he", "him", "his", "was", "i", "my"), pronouns.split()))
    name = " and ".join(names)
    return with_capitals(intro=f"{before} {manner} {noun} named {name}", name=name, the=f"the {noun}", **forms)


def make_thing(look, noun):
    before, pronouns = article(look), "it it was is"
    if noun.endswith("s"):
        before, pronouns = "a pair of", "they them were are"
    forms = dict(zip(("they", "them", "was", "is"), pronouns.split()))
    return with_capitals(name=f"{look} {noun}", noun=noun, a=f"{before} {look} {noun}", use=THINGS[noun], **forms)


def make_place(noun):
    return with_capitals(where=f"{PLACES[noun]} the {noun}", spot=f"the {noun}")


def with_capitals(**forms):
    """Returns an object with these forms: he = "she" and, for the beginning of a sentence, He = "She"."""
    return SimpleNamespace(**forms, **{form.capitalize(): text[0].upper() + text[1:] for form, text in forms.items()})


def one_of(words):
    return "|".join(map(re.escape, words))


NAMES = f"(?:{one_of(HE + SHE)})(?: and (?:{one_of(HE + SHE)}))?"
KIND = one_of([*KINDS, *KINDS.values()])
CHARACTER = {"name": NAMES, "the": f"the (?:{KIND})", "he": "he|she|they", "him": "him|her|them", "his": "his|her|their",
             "was": "was|were", "i": "I|we", "my": "my|our",
             "intro": f"(?:an?|two) (?:{one_of(MANNERS)}) (?:{KIND}) named {NAMES}"}
NOUN = f"(?:{one_of(THINGS)})"
THING = {"name": f"(?:{one_of(LOOKS)}) {NOUN}", "noun": NOUN, "a": f"(?:an?|a pair of) (?:{one_of(LOOKS)}) {NOUN}",
         "they": "it|they", "them": "it|them", "was": "was|were", "is": "is|are", "use": one_of(set(THINGS.values()))}
DAY = {"time": one_of(TIMES)}
PLACE = {"where": f"(?:{one_of(set(PLACES.values()))}) the (?:{one_of(PLACES)})", "spot": f"the (?:{one_of(PLACES)})"}
FORMS = {"h": CHARACTER, "f": CHARACTER, "t": THING, "d": DAY, "p": PLACE, "w": PLACE}      # right or wrong
KIND_OF_FORM = (dict.fromkeys(("was", "is", "a", "intro"), "agreement")
                | dict.fromkeys(("he", "him", "his", "i", "my", "they", "them"), "pronoun"))
KIND_OF_FAULT = {"h": "name", "f": "name", "t": "thing", "d": "time", "p": "place", "w": "place"}
END = re.compile(r'(?<=[.!?])\s+(?=["A-Z])|(?<=[.!?]")\s+(?=["A-Z])')


def compile_sentence(sentence):
    """Returns (pattern of a sentence of PLOT, the (role, form) of each of its groups)."""
    pieces = re.split(r"(\{.+?\})", sentence)
    pattern = "".join(slot_pattern(piece[1:-1]) if piece.startswith("{") else re.escape(piece) for piece in pieces)
    return re.compile(pattern), re.findall(r"\{(\w)\.(\w+)\}", sentence)


def slot_pattern(slot):
    role, _, form = slot.rpartition(".")
    if not role:
        return f"(?:{one_of(WORDS[form])})"
    return f"((?i:{FORMS[role][form.lower()]}))" if form[0].isupper() else f"({FORMS[role][form]})"


@functools.cache
def grammar():
    """Returns (number of the part, pattern, slots) of each sentence of PLOT."""
    return [(number, *compile_sentence(sentence)) for number, (_, _, choices) in enumerate(PLOT) for sentence in choices]


def sentences(text):
    """Returns the sentences of a text as a list; a question in direct speech belongs to its sentence."""
    return END.split(text.strip()) if text.strip() else []


def faults(text):
    """Returns the Faults of a text; a story that breaks no rule has none."""
    known = {}                                              # {role: the character, thing, place or day that was introduced}
    seen = [-1]                                             # the parts of the plot so far
    found = []
    for number, sentence in enumerate(sentences(text)):
        readings = [read(number, part, slots, match.groups(), known, max(seen)) for part, pattern, slots in grammar()
                    if (match := pattern.fullmatch(sentence))]
        if readings:
            wrong, known, part = min(readings, key=lambda reading: len(reading[0]))
            seen.append(part)
            found += wrong
        else:
            problem = "no sentence of the grammar" if re.search(r'[.!?]"?$', sentence) else "an unfinished sentence"
            found.append(Fault(number, "grammar", f"{problem}: {sentence}"))
    missing = [name for number, (name, share, _) in enumerate(PLOT) if share == 1 and number not in seen]
    return found + [Fault(None, "order", f"the {name} is missing") for name in missing]


def read(number, part, slots, texts, known, latest):
    """Returns (faults, what is known afterwards, part) of a sentence that is read as one of this part of the plot."""
    known = dict(known)
    wrong = []
    for (role, form), text in zip(slots, texts):
        if role not in known and (introduced := introduce(PLOT[part][0], role, form.lower(), text)):
            known[role] = introduced
            wrong += [Fault(number, KIND_OF_FAULT[role], message) for message in contradictions(role, known)]
    for (role, form), text in zip(slots, texts):
        right = getattr(known.get(role), form, None)
        if text != right:
            problem = "refers to nothing that was named before" if right is None else f"should be {right!r}"
            wrong.append(Fault(number, KIND_OF_FORM.get(form.lower(), KIND_OF_FAULT[role]), f"{text!r} {problem}"))
    if part <= latest:
        wrong.append(Fault(number, "order", f"the {PLOT[part][0]} comes twice or too late"))
    return wrong, known, part


def introduce(part, role, form, text):
    """Returns what a form introduces in this part of the plot, or None if it must have been named before."""
    words = text.split()
    if form == "intro":
        kind = next(kind for kind, plural in KINDS.items() if words[2].lower() in (kind, plural))
        return make_character(words[1], kind, [word for word in words[4:] if word != "and"])
    if (part, role) == ("treasure", "t") and form in ("name", "a"):
        return make_thing(*words[-2:])
    if (part, role) in (("loss", "p"), ("search", "w")):
        return make_place(words[-1])
    if (part, role) == ("wish", "d"):
        return with_capitals(time=text)
    return None


def contradictions(role, known):
    """Returns what is wrong with a newly introduced character or place, as a list of sentences."""
    new = known[role]
    if role == "w":
        return [f"{new.spot!r} is where it was lost, but it was not found there"] * (new == known.get("p"))
    if role not in "hf":
        return []
    names = new.name.split(" and ")
    others = known["h"].name.split(" and ") if role == "f" and "h" in known else []
    kind = new.the.split()[1]
    allowed = next((its_names for only, its_names in ONLY.items() if kind in (only, KINDS[only])), HE + SHE)
    messages = [f"{name!r} is the name of another character" for name in names if [*others, *names].count(name) > 1]
    if role == "f" and "h" in known and set((kind, KINDS.get(kind))) & set(known["h"].the.split()):
        messages.append(f"there are two characters called {new.the!r}")
    return messages + [f"{name!r} is no name for {new.the!r}" for name in names if name not in allowed]

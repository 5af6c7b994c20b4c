"""Places on the page that belong to lessons: `numpy-transformer explore --lesson 05` opens one of them."""

from dataclasses import dataclass
from urllib.parse import urlencode

from .wording import sentence

BLOCK = "decoder.blocks.0"
ATTENTION = f"{BLOCK}.attention.attention"


@dataclass(frozen=True)
class Place:
    """A place on the page of a tiny model.

    Attributes:
        lesson : number of the lesson, such as "05"
        ref : the array, as FORMAT.md names it
        cell : index of one entry
        op : the operation at which the time line stands, and whose panel is open
        phase : "forward" or "backward"
        model : kind of the tiny model
        view : "component" or "attention"
    """

    lesson: str
    ref: str
    cell: tuple
    op: str
    phase: str = "backward"
    model: str = "decoder"
    view: str = "component"

    @property
    def sentence(self):
        """What to look at, for the terminal."""
        return sentence(f"stories.lesson.{self.lesson}.question")

    def address(self, document):
        """Returns what stands after the # in the page's address."""
        step = document["steps"].index({"phase": self.phase, "op": self.op})
        return urlencode({"op": self.op, "ref": self.ref, "cell": ",".join(map(str, self.cell)), "t": step,
                          "view": self.view, "story": f"lesson-{self.lesson}.0"})


PLACES = {place.lesson: place for place in (
    Place("02", f"grad {BLOCK}.feed_forward.up.weight", (2, 11), f"{BLOCK}.feed_forward.up"),
    Place("05", f"grad {ATTENTION}.scores:y", (0, 0, 4, 3), f"{ATTENTION}.softmax"),
    Place("06", f"grad {BLOCK}.attention.split_heads:y", (0, 0, 0, 0), f"{ATTENTION}.scores"),
    Place("07", f"{ATTENTION}.softmax:y", (0, 1, 4, 1), f"{ATTENTION}.softmax", "forward", view="attention"),
    Place("08", f"grad {BLOCK}.add:y via {BLOCK}.norm2 x", (0, 4, 2), f"{BLOCK}.norm2"),
    Place("10", f"grad {BLOCK}.add:y", (0, 4, 2), f"{BLOCK}.norm2"),
    Place("13", "grad encoder.norm:y", (0, 3, 2), "encoder.norm", model="encoder-decoder"),
    Place("22", f"grad {ATTENTION}.softmax.sinks", (0,), f"{ATTENTION}.softmax", model="gpt-oss"),
    Place("23", f"grad {BLOCK}.attention.reshape:y", (0, 0, 2, 0), f"{BLOCK}.attention.concatenate2", model="deepseek-v3"),
    Place("24", f"grad {BLOCK}.attention.query.norm.separate_heads:y", (0, 4, 1, 2), f"{BLOCK}.attention.query.norm.norm",
          model="qwen3"),
    Place("25", f"grad {BLOCK}.feed_forward.router.linear:y", (1, 0), f"{BLOCK}.feed_forward.router.choice", model="mixtral"))}


def find_place(lesson):
    """Returns the Place of a lesson, such as "05" or "5". Raises ValueError if there is none."""
    number = str(lesson).zfill(2)
    if number not in PLACES:
        raise ValueError(sentence("step.place.unknown", lesson=lesson, lessons=", ".join(PLACES)))
    return PLACES[number]

"""Places on the page that belong to lessons: `numpy-transformer explore --lesson 05` opens one of them."""

from dataclasses import dataclass
from urllib.parse import urlencode

BLOCK = "decoder.blocks.0"
ATTENTION = f"{BLOCK}.attention.attention"


@dataclass(frozen=True)
class Place:
    """A place on the page of a tiny model.

    Attributes:
        sentence : what to look at, for the terminal
        ref : the array, as FORMAT.md names it
        cell : index of one entry
        op : the operation at which the time line stands, and whose panel is open
        phase : "forward" or "backward"
        model : kind of the tiny model
        view : "component" or "attention"
    """

    sentence: str
    ref: str
    cell: tuple
    op: str
    phase: str = "backward"
    model: str = "decoder"
    view: str = "component"

    def address(self, document):
        """Returns what stands after the # in the page's address."""
        step = document["steps"].index({"phase": self.phase, "op": self.op})
        return urlencode({"op": self.op, "ref": self.ref, "cell": ",".join(map(str, self.cell)), "t": step,
                          "view": self.view})


PLACES = {
    "02": Place("Each entry of dW is a sum over the tokens, of one input times one upstream gradient. Which token "
                "contributes most, and why does the last one contribute nothing?",
                f"grad {BLOCK}.feed_forward.up.weight", (2, 11), f"{BLOCK}.feed_forward.up"),
    "05": Place("dS is P times the difference between dP and the mean of dP under P. Here dP is negative and dS is "
                "positive: which other entry of the row is the reason?",
                f"grad {ATTENTION}.scores:y", (0, 0, 4, 3), f"{ATTENTION}.softmax"),
    "06": Place("The query of token 0 has gradient exactly 0. Follow its terms: which of their factors are 0, and why?",
                f"grad {BLOCK}.attention.split_heads:y", (0, 0, 0, 0), f"{ATTENTION}.scores"),
    "07": Place("Two heads read the same tokens with different weights. Which head of \"dog\" finds the animal "
                "whose verb comes next?",
                f"{ATTENTION}.softmax:y", (0, 1, 4, 1), f"{ATTENTION}.softmax", "forward", view="attention"),
    "08": Place("dx of LayerNorm has three terms: the direct path, the path through the mean, and the one through the "
                "standard deviation. What is the sum of dx over the features of a token?",
                f"grad {BLOCK}.add:y via {BLOCK}.norm2 x", (0, 4, 2), f"{BLOCK}.norm2"),
    "10": Place("Two gradients meet before a residual connection: one comes past the sublayer, one through it. "
                "What has the residual connection done to the first one?",
                f"grad {BLOCK}.add:y", (0, 4, 2), f"{BLOCK}.norm2"),
    "13": Place("The encoder's output is read twice, for the keys and for the values, and both gradients are added. "
                "Which of them is larger?",
                "grad encoder.norm:y", (0, 3, 2), "encoder.norm", model="encoder-decoder"),
}


def find_place(lesson):
    """Returns the Place of a lesson, such as "05" or "5". Raises ValueError if there is none."""
    number = str(lesson).zfill(2)
    if number not in PLACES:
        raise ValueError(f"there is no page for lesson {lesson!r}; choose one of {', '.join(PLACES)}")
    return PLACES[number]

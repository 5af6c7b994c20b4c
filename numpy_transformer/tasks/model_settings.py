"""Settings that several kinds of model share."""

from ..layers.attention import ATTENTIONS
from ..layers.feed_forward import ACTIVATIONS, FEED_FORWARDS
from ..layers.positions import POSITIONS
from ..models import INITS
from .settings import Setting, choice, count_setting, rate_setting


def sizes(d_model, num_layers, d_ff, num_layers_help="number of blocks"):
    return [count_setting("d_model", d_model, "width of the model"),
            count_setting("num_heads", 4, "number of attention heads"),
            count_setting("num_layers", num_layers, num_layers_help),
            count_setting("d_ff", d_ff, "width of the feed-forward layers")]


def dropout(default):
    return rate_setting("dropout", default, "probability with which an activation is dropped in training", 1)


def norm(default="pre"):
    return choice("norm", default, "normalize before (pre) or after (post) each sublayer", "pre", "post")


def activation(default):
    return choice("activation", default, "activation of the feed-forward layers", *ACTIVATIONS, *FEED_FORWARDS)


def positions(default):
    return choice("positions", default, "positional encoding", *POSITIONS)


def attention(default):
    return choice("attention", default, "kind of attention; flash takes less memory for long texts, and no dropout",
                  *ATTENTIONS)


def init(default):
    return choice("init", default, "distribution of the initial weights; lesson 19 compares them", *INITS)


def start_settings():
    """Returns the settings of how a run starts from the weights of another one."""
    return [
        Setting("pretrained", None, "start from the weights, tokenizer and sizes of this run, or of a published model that "
                                    "`import` has read"),
        count_setting("lora", None,
                      "train only updates of this rank to some of the pretrained weights (LoRA), and a new head"),
        rate_setting("lora_alpha", None,
                     "these updates are multiplied by this number divided by the rank; the rank if left out"),
        Setting("lora_targets", None, "linear layers that are updated, such as query and value; all of each block if left "
                                      "out", list, metavar="NAME"),
        Setting("freeze", None, "parts that keep their pretrained weights, such as embedding, or blocks.0-3 for the first "
                                "four blocks", list, metavar="PART")]

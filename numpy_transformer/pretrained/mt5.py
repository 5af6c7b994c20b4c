"""mT5 (Xue et al. 2021): T5 1.1 trained on 101 languages."""

from ..models import EncoderDecoder
from . import t5
from .family import no_head

DEFAULTS = {"feed_forward_proj": "gated-gelu"}


def name_table(config):
    return t5.name_table(DEFAULTS | config)


def settings(config, stored):
    """The output is never divided by sqrt(d_model), whatever config.json says about tying."""
    return t5.settings(DEFAULTS | config | {"scale_decoder_outputs": False}, stored)


MT5 = t5.T5._replace(
    names=name_table, settings=settings, base="MT5Model",
    heads={name: (EncoderDecoder, "", no_head) for name in ("MT5ForConditionalGeneration", "MT5Model")})

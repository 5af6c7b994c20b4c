"""config.json, each of whose options is checked when it is read: its type and its range are in one table for all families."""

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

from ..file_checks import quoted

MOST_BLOCKS = 10_000
LARGEST = 1e12


class Kind(NamedTuple):
    """What an option may be.

    Fields:
        words : what an error says that is wanted
        fits : (value) -> bool
        null : True if null stands for none, or for a value that follows from other options
    """
    words: str
    fits: Callable[[Any], bool]
    null: bool = False


def is_number(value, kind=numbers.Real):
    return isinstance(value, kind) and not isinstance(value, bool)


def whole(lowest, highest=None):
    words = f"a whole number of at least {lowest}" if highest is None else f"a whole number from {lowest} to {highest:,}"
    highest = math.inf if highest is None else highest
    return Kind(words, lambda value: is_number(value, numbers.Integral) and lowest <= value <= highest)


def number(above, up_to=LARGEST):
    words = f"a number above {above}" + ("" if up_to == LARGEST else f" and up to {up_to:g}")
    return Kind(words, lambda value: is_number(value) and above < value <= up_to)


def items(words, fits, null=True):
    return Kind(f"a list of {words}", lambda value: isinstance(value, list) and all(map(fits, value)), null)


def choice(*values):
    return Kind(" or ".join(map(repr, values)), lambda value: value in values)


def or_null(kind):
    return kind._replace(null=True)


SIZE = whole(1)
FROM_0 = whole(0)
BLOCKS = whole(1, MOST_BLOCKS)
EPS = number(0, 1)
PART = or_null(number(0, 1))
POSITIVE = number(0)
BASE = or_null(number(1))
SCALE = Kind("a number of at least 0", lambda value: is_number(value) and 0 <= value <= LARGEST, null=True)
RATE = Kind("a number from 0 to below 1", lambda value: is_number(value) and 0 <= value < 1)
YES_OR_NO = Kind("true or false", lambda value: value in (True, False), null=True)
TEXT = Kind("a text", lambda value: isinstance(value, str))
OBJECT = Kind("an object", lambda value: isinstance(value, dict), null=True)
LENGTHS = Kind("a whole number of at least 1, or two of them",
               lambda value: all(map(SIZE.fits, value)) and len(value) == 2 if isinstance(value, list) else SIZE.fits(value))


def of_kind(kind, names):
    return dict.fromkeys(names.split(), kind)


KINDS = {                                       # of an option, by its name in config.json
    **of_kind(SIZE, "vocab_size hidden_size intermediate_size num_attention_heads n_positions n_embd n_head dim hidden_dim "
                    "n_heads d_model d_ff d_kv num_heads encoder_attention_heads decoder_attention_heads encoder_ffn_dim "
                    "decoder_ffn_dim relative_attention_num_buckets moe_intermediate_size num_channels qk_rope_head_dim "
                    "kv_lora_rank qk_nope_head_dim v_head_dim n_routed_experts n_shared_experts num_labels "
                    "max_position_embeddings relative_attention_max_distance num_experts_per_tok decoder_sparse_step "
                    "no_rope_layer_interval global_attn_every_n_layers local_attention"),
    **of_kind(or_null(SIZE), "head_dim num_key_value_heads n_inner q_lora_rank num_local_experts num_experts sliding_window "
                             "sliding_window_pattern _sliding_window_pattern n_group topk_group "
                             "original_max_position_embeddings"),
    **of_kind(FROM_0, "type_vocab_size max_window_layers first_k_dense_replace"),
    **of_kind(or_null(FROM_0), "pad_token_id"),
    **of_kind(BLOCKS, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers"),
    **of_kind(or_null(BLOCKS), "num_decoder_layers"),
    **of_kind(EPS, "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps"),
    **of_kind(RATE, "resid_pdrop hidden_dropout_prob dropout hidden_dropout dropout_rate"),
    **of_kind(BASE, "rope_theta rotary_emb_base global_rope_theta local_rope_theta rope_local_base_freq"),
    **of_kind(PART, "partial_rotary_factor rotary_pct"),
    **of_kind(POSITIVE, "factor low_freq_factor high_freq_factor query_pre_attn_scalar swiglu_limit routed_scaling_factor"),
    **of_kind(or_null(POSITIVE), "beta_fast beta_slow final_logit_softcapping attn_logit_softcapping"),
    **of_kind(or_null(number(0, 100)), "attention_factor"),
    **of_kind(SCALE, "mscale mscale_all_dim"),
    **of_kind(YES_OR_NO, "tie_word_embeddings use_sliding_window norm_topk_prob use_parallel_residual "
                         "scale_embedding scale_decoder_outputs truncate"),
    "rope_interleave": YES_OR_NO._replace(null=False),
    **of_kind(TEXT, "activation_function activation feed_forward_proj hidden_activation classifier_activation rope_type type"),
    **of_kind(or_null(TEXT), "hidden_act"),
    **of_kind(OBJECT, "id2label rope_parameters rope_scaling full_attention sliding_attention"),
    "architectures": items("texts", TEXT.fits),
    "layer_types": items("texts", TEXT.fits),
    "no_rope_layers": items("0 and 1, one for each block", lambda value: value in (0, 1)),
    "mlp_only_layers": items("numbers of blocks", FROM_0.fits),
    "classifier_pooling": choice("cls", "mean"),
    "image_size": LENGTHS, "patch_size": LENGTHS,
}
SEEN_IN = {                                     # option that may be left out: a part of the names of arrays that show it
    "head_dim": "attn", "num_key_value_heads": "attn", "n_inner": "mlp", "num_local_experts": "expert", "num_experts": "expert",
    "moe_intermediate_size": "expert", "n_shared_experts": "shared_experts", "num_labels": "classifier",
    "type_vocab_size": "token_type", "relative_attention_num_buckets": "relative_attention_bias",
    "num_channels": "projection", "num_decoder_layers": "decoder."}


class CheckedConfig(dict):
    """The options of config.json. What is read from it has the type and the range that KINDS names.

    Parameters:
        options : dict
        inside : the name of the option in which these options stand, and a dot; "" for those of config.json itself
        defaults : names of the options that config.json leaves out, in one with defaults

    Attributes: absent : set of the names of the options that were asked for, and for which config.json has no value
    Raises: ValueError for a value that an option cannot have, when it is read; KeyError for an option that is not there.
    """

    def __init__(self, options, inside="", defaults=(), absent=None):
        super().__init__(options)
        self.inside, self.defaults, self.absent = inside, set(defaults), set() if absent is None else absent

    def __getitem__(self, name):
        if name in self.defaults or super().get(name) is None:
            self.absent.add(name)
        if name not in self:
            raise KeyError(self.inside + name)
        return check_option(self.inside + name, super().__getitem__(name), KINDS.get(name))

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default

    def __or__(self, changes):
        return CheckedConfig({**self, **changes}, self.inside, self.defaults - changes.keys(), self.absent)

    def __ror__(self, defaults):
        return CheckedConfig({**defaults, **self}, self.inside, self.defaults | (defaults.keys() - self.keys()), self.absent)

    def sizes_left_out(self, names):
        """Returns a sorted list of the options that were asked for and are not there, and that arrays with one of these names
        would show.
        """
        return sorted(option for option in self.absent if any(SEEN_IN.get(option, "-") in name for name in names))


def check_option(name, value, kind):
    """Returns the value of an option. Raises ValueError unless it is of its kind; any value will do if there is none."""
    if kind is None or (value is None and kind.null) or kind.fits(value):
        return value
    raise ValueError(f"config.json gives {name} = {quoted(value)}, wanted {kind.words}; copy the original file")


def check_order(**pair):
    """Raises ValueError unless the second of two options, given by their names, is larger than the first one."""
    (lower, low), (upper, high) = pair.items()
    if low >= high:
        raise ValueError(f"config.json gives {lower} = {low!r} and {upper} = {high!r}, wanted {upper} above {lower}; copy the "
                         "original file")

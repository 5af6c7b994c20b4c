"""The families by their names in config.json, and the settings and rules of one checkpoint or one model."""

from dataclasses import dataclass, field

from ..file_checks import MALFORMED, quoted, reason_of
from ..module import unfilled
from .bart import BART
from .bert import BERT
from .config import CheckedConfig
from .deepseek_v3 import DEEPSEEK_V3
from .distilbert import DISTILBERT
from .gemma import GEMMA
from .gemma2 import GEMMA2
from .gemma3 import GEMMA3_TEXT
from .gpt2 import GPT2
from .gpt_neox import GPT_NEOX
from .gpt_oss import GPT_OSS
from .llama import LLAMA
from .marian import MARIAN
from .mistral import MISTRAL
from .mixtral import MIXTRAL
from .modernbert import MODERNBERT
from .mt5 import MT5
from .names import make_rules
from .olmo2 import OLMO2
from .phi3 import PHI3
from .qwen2 import QWEN2
from .qwen3 import QWEN3
from .qwen3_moe import QWEN3_MOE
from .roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from .smollm3 import SMOLLM3
from .t5 import T5
from .unsupported import OF_FIXED, components
from .vit import VIT

FAMILIES = {"gpt2": GPT2, "llama": LLAMA, "llama2.c": LLAMA, "mistral": MISTRAL, "qwen2": QWEN2, "qwen3": QWEN3,
            "gemma": GEMMA, "gemma2": GEMMA2, "gemma3_text": GEMMA3_TEXT, "smollm3": SMOLLM3, "olmo2": OLMO2, "phi3": PHI3,
            "gpt_neox": GPT_NEOX, "gpt_oss": GPT_OSS, "mixtral": MIXTRAL, "qwen3_moe": QWEN3_MOE,
            "deepseek_v3": DEEPSEEK_V3, "bert": BERT,
            "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA, "camembert": CAMEMBERT, "distilbert": DISTILBERT,
            "modernbert": MODERNBERT, "t5": T5, "mt5": MT5, "bart": BART, "marian": MARIAN, "vit": VIT}


@dataclass
class Origin:
    """Where a model came from: what save_pretrained needs to write the same kind of checkpoint.

    Fields:
        family : its name, a key of FAMILIES
        config : config.json as a dict
        files : {relative path: text} of the small files beside it, such as the tokenizer's
        unused : {name: array} of weights that our model does not use, but that another model of the family uses
        options : the arguments of the model's class
    """
    family: str
    config: dict
    files: dict = field(default_factory=dict)
    unused: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)


def find_family(config, stored):
    """Returns the Family of a config.json and the names of the arrays.

    Raises: ValueError for a family that this package does not support; it names what is new in it, as far as that shows.
    """
    name = config.get("model_type")
    known = ", ".join(name for name in FAMILIES if name != "llama2.c")
    if name is None:
        raise ValueError("config.json has no model_type, which names the family of a model; copy the complete file, of a model "
                         f"of one of the families {known}")
    if not isinstance(name, str) or name not in FAMILIES:
        missing = components(config, stored)
        uses = f" (it has {missing})" if missing else ""
        raise ValueError(f"config.json names the model_type {quoted(name)}, a family that this package does not build{uses}; "
                         f"load a model of one of the families {known}")
    return FAMILIES[name]


def build_model(family, model_class, options, rng=None):
    """Returns a new model of a family, by its name, from the options that describe_config returns for a checkpoint."""
    return FAMILIES[family].build(model_class, options, rng)


def describe_config(config, stored):
    """Returns (model class, options) of a checkpoint, from its config.json and the names of its arrays.

    Raises: ValueError for a family, head or option that this package does not support, or if a setting is missing.
    """
    family = find_family(config, stored)
    check_fixed(family, config)
    config = CheckedConfig(config)
    try:
        model_class, _, head_options = family.head(config, stored)
        options = family.settings(config, stored) | head_options(config)
        check_frequencies(options)
        return model_class, options
    except KeyError as error:
        raise ValueError(f"config.json has no {error}, which a {config['model_type']} model needs; copy the complete "
                         "file") from error
    except MALFORMED as error:
        raise ValueError(f"config.json does not describe a {config['model_type']} model ({reason_of(error)}); copy the "
                         "original file") from error


def sizes_left_out(config, stored, names):
    """Returns " (config.json gives no head_dim)", with the sizes for which it gives no value, so that a usual one is taken, or
    one that follows from others; "" if it gives all.

    Parameters: config : dict, which describe_config reads; stored : names of the arrays; names : those that do not fit
    """
    config = CheckedConfig(config)
    with unfilled():                            # also where a model has just been found too large
        FAMILIES[config["model_type"]].settings(config, stored)
    sizes = config.sizes_left_out(names)
    return f" (config.json gives no {' or '.join(sizes)})" if sizes else ""


def check_fixed(family, config):
    """Raises ValueError if config.json has an option that our model does not implement."""
    if config.get("quantization_config"):
        raise ValueError("config.json describes quantized weights (quantization_config), which this package does not "
                         "support; use the checkpoint in float32, float16 or bfloat16 that they were made from")
    for option, value in family.fixed.items():
        if config.get(option) not in (None, value):
            raise ValueError(f"config.json has {option} = {config[option]!r}, which asks for {OF_FIXED[option]}; this "
                             f"package only builds {option} = {value!r} for a {config['model_type']} model, so use a "
                             "checkpoint with that")


def check_frequencies(options):
    """Raises ValueError unless the scaled rotary frequencies of config.json are in a sensible range."""
    for rotary in (options, options.get("local", {}).get("rotary", {})):
        values = [("rope_factor", rotary.get("rope_factor", 1.0), 100)]
        values += [("rope_frequencies", value, 1) for value in rotary.get("rope_frequencies") or ()]
        for name, value, highest in values:
            if not 0 < value <= highest:
                raise ValueError(f"the scaled rotary positions of config.json lead to {name} = {value!r}, wanted a number "
                                 f"above 0 and up to {highest}; copy the original file")


def architecture_of(model):
    """Returns the architecture that a model is saved as: that of its config.json, or else one that fits its class.

    Raises: ValueError if the family has none for it.
    """
    family = FAMILIES[model.origin.family]
    named = (model.origin.config.get("architectures") or [None])[0]
    for architecture in (named, *family.heads):
        if architecture in family.heads and family.heads[architecture][0] is type(model):
            return architecture
    raise ValueError(f"transformers has no {model.origin.family} model that corresponds to {type(model).__name__}; "
                     f"there is one for {', '.join(sorted({head[0].__name__ for head in family.heads.values()}))}")


def rules(model):
    """Returns the Rules that connect a model's parameters with the arrays of a checkpoint of its family.

    They serve for loading, saving and comparing gradients; see `names.NameRule`.

    Raises: ValueError for a model that did not come from a checkpoint
    """
    if getattr(model, "origin", None) is None:
        raise ValueError(f"this {type(model).__name__} did not come from a checkpoint of transformers, so there are no "
                         "names for its weights; use a model that load_pretrained has returned")
    family = FAMILIES[model.origin.family]
    return make_rules(family.table(model.origin.config, architecture_of(model)), model)

"""ViT (Dosovitskiy et al. 2021): an encoder of images, with a head that classifies them."""

from ..models import ImageClassifier
from .family import Family, activation, build_with_ff_dropout, num_labels

NAMES = """
    vit.embeddings.cls_token                            class_token.weight              of shape 1,1,{d}
    vit.embeddings.patch_embeddings.projection.weight   projection.weight               of shape {d},{c},{p},{q}
    vit.embeddings.patch_embeddings.projection.bias     projection.bias
    vit.embeddings.position_embeddings                  positions.weight                of shape 1,{n},{d}
    vit.encoder.layer.*.layernorm_before                encoder.blocks.*.norm1
    vit.encoder.layer.*.attention.attention.query       encoder.blocks.*.attention.query
    vit.encoder.layer.*.attention.attention.key         encoder.blocks.*.attention.key
    vit.encoder.layer.*.attention.attention.value       encoder.blocks.*.attention.value
    vit.encoder.layer.*.attention.output.dense          encoder.blocks.*.attention.output
    vit.encoder.layer.*.layernorm_after                 encoder.blocks.*.norm2
    vit.encoder.layer.*.intermediate.dense              encoder.blocks.*.feed_forward.up
    vit.encoder.layer.*.output.dense                    encoder.blocks.*.feed_forward.down
    vit.layernorm                                       encoder.norm
"""

CLASSIFIER = """
    classifier                                          output
"""


def name_table(config):
    """Returns the table with the shapes of this model."""
    (height, width), (p, q) = sizes(config)
    return NAMES.format(d=config["hidden_size"], c=config.get("num_channels", 3), p=p, q=q, n=1 + height // p * (width // q))


def sizes(config):
    """Returns ((height, width) of an image, (height, width) of a patch); config.json may have one number for both."""
    both = config.get("image_size", 224), config.get("patch_size", 16)
    return tuple([size, size] if isinstance(size, int) else list(size) for size in both)


def settings(config, stored):
    image, patch = sizes(config)
    return {
        "image": image, "patch": patch, "channels": config.get("num_channels", 3),
        "d_model": config["hidden_size"], "d_ff": config["intermediate_size"],
        "num_heads": config["num_attention_heads"], "num_layers": config["num_hidden_layers"],
        "activation": activation(config.get("hidden_act", "gelu")), "eps": config.get("layer_norm_eps", 1e-12),
        "dropout": config.get("hidden_dropout_prob", 0.0), "ff_dropout": 0.0,
    }


def classifier(config):
    return {"num_classes": num_labels(config)}


VIT = Family(
    names=name_table,
    settings=settings,
    heads={"ViTForImageClassification": (ImageClassifier, CLASSIFIER, classifier)},
    base="ViTForImageClassification",
    fixed={"qkv_bias": True},
    build=build_with_ff_dropout,
)

"""Writes the small checkpoints of tests/pretrained/small, with values that transformers computes in float64.

    PYTHONPATH=.:tests python tests/helpers/small_checkpoints.py

Each folder has a model of about 2,000 random weights and values.npz: the inputs, the logits, and under the names of
transformers the gradients of the mean cross-entropy with the targets (-1: ignored).
"""

from pathlib import Path

import numpy as np

SMALL = Path(__file__).parents[1] / "pretrained" / "small"
SIZES = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 19, "n_positions": 8, "n_embd": 8, "n_head": 2, "n_inner": 12}),
    "llama": ("LlamaForCausalLM", {"vocab_size": 19, "hidden_size": 8, "num_attention_heads": 4, "head_dim": 6,
                                   "num_key_value_heads": 2, "intermediate_size": 12, "max_position_embeddings": 8}),
    "bert": ("BertForMaskedLM", {"vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12,
                                 "max_position_embeddings": 8, "type_vocab_size": 2}),
    "t5": ("T5ForConditionalGeneration", {"vocab_size": 19, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_heads": 2,
                                          "relative_attention_num_buckets": 6, "relative_attention_max_distance": 7}),
}


def inputs(family):
    """{name in transformers: array}, targets"""
    rng = np.random.default_rng(11)
    ids = rng.integers(3, 19, (2, 7))
    mask = np.ones(ids.shape, int)
    mask[1, 5:] = 0
    ids[mask == 0] = 0
    given = {"input_ids": ids, "attention_mask": mask}
    if family == "bert":
        given["token_type_ids"] = rng.integers(0, 2, ids.shape)
    if family == "t5":
        given["decoder_input_ids"] = np.hstack([np.zeros((2, 1), int), rng.integers(2, 19, (2, 5))])
        return given, rng.integers(0, 19, (2, 6))
    return given, np.where(mask, rng.integers(0, 19, ids.shape), -1)


def write(family):
    import torch
    from helpers.hugging_face import TINY, double_precision, theirs, write_tiny

    architecture, sizes = SIZES[family]
    TINY[family] = {"n_layer": 2} if family == "gpt2" else {"num_layers" if family == "t5" else "num_hidden_layers": 2}
    folder = write_tiny(SMALL / family, architecture, family, seed=3, **sizes)
    (folder / "generation_config.json").unlink(missing_ok=True)
    given, targets = inputs(family)
    model = theirs(folder, architecture)
    with double_precision():
        logits = model(**{name: torch.tensor(value) for name, value in given.items()}).logits
        real = torch.tensor(targets >= 0)
        torch.nn.functional.cross_entropy(logits[real], torch.tensor(targets)[real]).backward()
    gradients = {name: weight.grad.numpy().astype(np.float32) for name, weight in model.named_parameters()}
    np.savez_compressed(folder / "values.npz", targets=targets, logits=logits.detach().numpy(),
                        **{f"in.{name}": value for name, value in given.items()},
                        **{f"gradient.{name}": value for name, value in gradients.items()})


if __name__ == "__main__":
    for family in SIZES:
        write(family)

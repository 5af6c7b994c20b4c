"""The parts of fine-tuning and of reading runs that no command shows by itself."""

import numpy as np

import numpy_transformer as nt
from numpy_transformer.module import unfilled
from numpy_transformer.tasks.fine_tuning import draw_missing_weights
from numpy_transformer.tasks.runs import arrays_of_model


def test_new_weights_are_drawn_and_new_norms_are_the_identity():
    with unfilled():
        model = nt.MaskedLanguageModel(50, 24, 3, 2, max_len=9)
    model.embedding.weight.data = np.full((50, 24), 3)
    draw_missing_weights(model, np.random.default_rng(0))
    for name, parameter in model.named_parameters():
        if name == "embedding.weight":
            assert (parameter.data == 3).all()              # it had been filled
        elif parameter.data.ndim > 1:
            assert 0.015 < parameter.data.std() < 0.025, name
        else:
            assert (parameter.data == name.endswith("gamma")).all(), name
    assert any(name.endswith("gamma") for name in model.state_dict())


def test_only_one_set_of_weights_is_read():
    names = ["model/a", "optimizer/m/a", "history/loss", "unused/b"]
    assert arrays_of_model(names) == ["model/a", "history/loss", "unused/b"]
    assert arrays_of_model([*names, "best/a"]) == ["history/loss", "unused/b", "best/a"]

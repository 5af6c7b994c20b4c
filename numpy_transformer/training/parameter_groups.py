"""Which parameters of a model are matrices of Linears: these decay, and Muon takes those inside the blocks."""

from ..module import Module, Parameter


def linear_weights(model: Module) -> list[Parameter]:
    """Returns the matrices of all Linears that are trained. These usually decay; embeddings, norms and biases do not.

    For example AdamW(model.parameters(), decay=nt.linear_weights(model)). An output layer that shares the embedding's matrix
    does not count as a Linear.
    """
    return [parameter for _, parameter in named_linear_weights(model)]


def hidden_weights(model: Module) -> list[Parameter]:
    """Returns those of linear_weights(model) that lie inside blocks: not the output layer, nor the head of a classifier."""
    return [parameter for name, parameter in named_linear_weights(model) if "blocks" in name.split(".")]


def named_linear_weights(model):
    modules = dict(model.named_modules())
    return [(name, parameter) for name, parameter in model.named_parameters(trained=True)
            if parameter.data.ndim == 2 and hasattr(modules[name.rpartition(".")[0]], "d_in")]    # tables have no d_in

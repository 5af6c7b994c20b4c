"""What a model consists of, in the words of the table in lessons/MODELS.md, read from its components."""

import numpy_transformer as nt


def card(model):
    """Returns {column of the table: its cell} of a language model or a masked language model."""
    stack = getattr(model, "decoder", None) or model.encoder
    return {"norms": norms(stack), "positions": positions(model, stack), "attention": attention(stack),
            "feed-forward": feed_forward(stack), "logits": logits(model)}


def norms(stack):
    block = stack.blocks[-1]
    kind = type(stack.norm).__name__
    before = not isinstance(block.norm1, nt.Identity)
    after = isinstance(block.attention.output, nt.NormedLinear)
    place = {(True, False): "before", (False, True): "after", (True, True): "before and after"}[before, after]
    words = [f"{kind} {place}"]
    if isinstance(getattr(block.attention, "key", None), nt.NormedLinear):
        words.append("of q and k by head" if isinstance(block.attention.key.norm, nt.PerHead) else "of q and k as a whole")
    return ", ".join(words)


def positions(model, stack):
    if model.positions is not None:
        return "learned"
    rotaries = [block.attention.rotary for block in stack.blocks]
    words = "rotary"
    if isinstance(rotaries[0], nt.PartialRotary):
        words += " on a part of each head"
    if isinstance(stack.blocks[0].attention, nt.LatentAttention):
        words += " on a part of each query and on one key"
    if any(rotary is None for rotary in rotaries):
        words += ", none in some blocks"
    if len({id(rotary) for rotary in rotaries if rotary is not None}) > 1:
        words += ", another base with a window"
    return words


def attention(stack):
    block = stack.blocks[-1].attention
    if isinstance(block, nt.LatentAttention):
        words = ["latent"]
    else:
        words = ["grouped" if block.num_kv_heads < block.num_heads else "multi-head"]
    inner = [block.attention.attention for block in stack.blocks]
    windows = [any(isinstance(change, nt.SlidingWindow) for change in each.score_changes) for each in inner]
    if any(windows):
        words.append("a window everywhere" if all(windows) else "a window in some blocks")
    if any(isinstance(change, nt.SoftCap) for change in inner[0].score_changes):
        words.append("capped scores")
    if isinstance(inner[0].softmax, nt.SinkSoftmax):
        words.append("sinks")
    return ", ".join(words)


def feed_forward(stack):
    kinds = [type(block.feed_forward) for block in stack.blocks]
    part = stack.blocks[-1].feed_forward
    words = ""
    if isinstance(part, nt.MixtureOfExperts):
        words = f"experts ({type(part.router).__name__})" + (" and a shared one" if part.shared is not None else "")
        words += ", plain in the first block: " if nt.MixtureOfExperts not in kinds[:1] else ": "
        part = part.experts[0]
    words += type(part).__name__
    f = type(getattr(part, "activation", None)).__name__
    words += "" if isinstance(part, nt.ClampedSwiGLU) else f" with {f}"
    return words + (", beside attention" if isinstance(stack.blocks[-1], nt.ParallelBlock) else "")


def logits(model):
    output = model.output
    capped = isinstance(output, nt.Sequential)
    output = output.parts[0] if capped else output
    return ("tied" if isinstance(output, nt.Unembedding) else "untied") + (", capped" if capped else "")

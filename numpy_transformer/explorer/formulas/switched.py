"""Formulas of what takes the place of a head, a block or a residual connection that is switched off."""

from ..switches import KeepHeads, PassThrough, WithoutResidual
from .writers import spells


@spells(KeepHeads)
def keep_heads(op):
    kept = " and ".join(f"h != {head}" for head in sorted(op.module.heads_off))
    yield f"y[..., h, t, c] = x[..., h, t, c] if {kept} else 0"
    yield f"dx[..., h, t, c] = dy[..., h, t, c] if {kept} else 0"


@spells(PassThrough)
def pass_through(op):
    yield "y[...] = x[...]"
    yield "dx[...] = dy[...]"


@spells(WithoutResidual)
def without_residual(op):
    yield "y[...] = f[...]"
    yield "dx[...] = 0"
    yield "df[...] = dy[...]"

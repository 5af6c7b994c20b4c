"""Formulas of what routers and mixtures of experts compute between their parts."""

from .writers import lines, spells


@spells("choice")
def choice(op):
    """The logits of the chosen experts; exp(-inf) is 0 for the others."""
    yield "y[..., e] = x[..., e] if chosen[..., e] else -inf"
    yield "dx[..., e] = dy[..., e] if chosen[..., e] else 0"


@spells("gates")
def gates(op):
    """Quotients of sigmoids, of the chosen experts alone."""
    scores = """
        s[..., e] = 1 / (1 + exp(-x[..., e])) if chosen[..., e] else 0
        total[...] = sum(j, s[..., j])
    """
    yield lines(scores, "y[..., e] = factor * s[..., e] / total[...]")
    yield lines(scores, """
        ds[..., e] = (factor * dy[..., e] - sum(j, dy[..., j] * y[..., j])) / total[...]
        dx[..., e] = ds[..., e] * s[..., e] * (1 - s[..., e]) if chosen[..., e] else 0
    """)


@spells("balancing loss")
def balancing_loss(op):
    """coefficient E sum over e of f_e P_e, where factor is coefficient E / (N k N) and counts are N k f."""
    yield "y = factor * sum(t, e, p[t, e] * counts[e])"
    yield "dp[t, e] = dy * factor * counts[e]"


@spells("weighted experts")
def sum_of_experts(op):
    """An expert without tokens does not occur."""
    used = [name.removeprefix("h") for name in op.inputs if name.startswith("h")]
    terms, of_gates = [], "0"
    for e in used:
        terms.append(f"sum(k, g[tokens{e}[k], {e}] * h{e}[k, i], where=tokens{e}[k] == t)")
        of_gates = f"sum(k, i, dy[t, i] * h{e}[k, i], where=tokens{e}[k] == t) if e == {e} else {of_gates}"
        yield f"dh{e}[k, i] = g[tokens{e}[k], {e}] * dy[tokens{e}[k], i]"
    yield f"y[t, i] = {' + '.join(terms)}"
    yield f"dg[t, e] = {of_gates}"


@spells("clamped gate")
def clamped_gate(op):
    clamped = """
        a[..., i] = z[..., i] if z[..., i] < limit else limit
        b[..., i] = limit if u[..., i] > limit else u[..., i] if u[..., i] > -limit else -limit
        s[..., i] = (1 + tanh(slope * a[..., i] / 2)) / 2
    """
    yield lines(clamped, "y[..., i] = (b[..., i] + 1) * a[..., i] * s[..., i]")
    yield lines(clamped, """
        da[..., i] = (b[..., i] + 1) * s[..., i] * (1 + slope * a[..., i] * (1 - s[..., i]))
        dz[..., i] = dy[..., i] * da[..., i] if z[..., i] < limit else 0
    """)
    yield lines(clamped, "du[..., i] = dy[..., i] * a[..., i] * s[..., i] if abs(u[..., i]) < limit else 0")

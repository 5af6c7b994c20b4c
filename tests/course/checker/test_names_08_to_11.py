"""Lessons 08 to 11: answers in a student's own words get the name of what is wrong, and no name that is untrue."""

import pytest
from helpers.answer_keys import answer_key
from helpers.students import judged

from numpy_transformer.course.exercises import choose

NORM = """
    N = {n}
    mean = x.sum(-1, keepdims=True) / x.shape[-1]
    inv = (((x - mean) ** 2).mean(-1, keepdims=True) + eps) ** -0.5
    h = (x - mean) * inv
    d = dy * gamma
    dx = (d - d.sum(-1, keepdims=True) / N {sign} h * (d * h).sum(-1, keepdims=True) / N) * inv
    {last}
    axes = tuple(range(x.ndim - 1))
    return dx, (dy * h).sum(axes), dy.sum(axes)
"""
GATED = """
    a, b = x @ Wg, x @ Wu
    p = 1 / (1 + np.exp(-a))
    dh = dy @ Wd.T
    da, db = dh * {other} * {slope}, dh * {own}
    return da @ Wg.T + db @ Wu.T, rows(x).T @ rows(da), rows(x).T @ rows(db), rows(a * p * b).T @ rows(dy)
"""
HIDDEN = """
    h = np.maximum(0, x @ W1 + b1)
    dh = dy @ W2.T * {mask}
    return dh @ W1.T, rows(x).T @ rows(dh), rows(dh).sum(0), rows(h).T @ rows(dy), rows(dy).sum(0)
"""
LOSS = """
    p = {p}
    return {sign}(targets * np.log(p) + (1 - targets) * np.log(1 - p)).{end}
"""
SIGMOID = "1 / (1 + np.exp(-logits))"


def norm(n="x.shape[-1]", sign="-", last="pass"):
    return NORM.format(n=n, sign=sign, last=last)


def gated(slope="p * (1 + a * (1 - p))", other="b", own="a * p"):
    return GATED.format(slope=slope, other=other, own=own)


def loss(p=SIGMOID, sign="-", end="mean()"):
    return LOSS.format(p=p, sign=sign, end=end)


@pytest.mark.parametrize("number, body, names", [
    ("08.2", norm(), None),
    ("08.2", norm(n="x.shape[0]"), ["LN-5d"]),
    ("08.2", norm(sign="+"), ["LN-10"]),
    ("08.2", norm(last="dy = d"), []),                      # dy itself is not changed: not LN-4f
    ("08.2", norm(last="dx = gamma * dx"), []),
    ("09.5", gated(), None),
    ("09.5", gated("(p + a * p)"), ["SWG-3f"]),
    ("09.5", gated("a * p * (1 - a * p)"), []),
    ("09.5", gated("(a > 0)"), []),
    ("09.5", gated(other="a * p", own="b"), ["SWG-4d"]),
    ("09.6", HIDDEN.format(mask="(h > 0)"), None),
    ("09.6", HIDDEN.format(mask="(h >= 0)"), ["ACT-2a"]),
    ("09.6", HIDDEN.format(mask="(x @ W1 > 0)"), ["FFN-1b"]),
    ("11.2", "    return np.where(token_mask[..., None], 0, dy[..., None, :]) / "
             "np.maximum(token_mask.sum(-1), 1)[..., None, None]", ["MNB-5a"]),
    ("11.3", loss(), ["BCE-3"]),
    ("11.3", loss(end="sum()"), ["BCE-1 and BCE-3"]),
    ("11.3", loss("logits"), []),
    ("11.3", loss("1 / (1 - np.exp(-logits))"), []),                # NaN in every case has no name
    ("11.3", "    return (np.logaddexp(0, logits) - logits).mean()", []),
    ("11.4", f"    p = {SIGMOID}\n    return -(targets / p - (1 - targets) / (1 - p)) * p * (1 - p)",
     []),
])
def test_names(number, body, names):
    verdict = judged(answer_key(choose(number)), body)
    assert verdict.status == ("pass" if names is None else "fail") and [" and ".join(together) for together in verdict.mistakes] == (names or [])

"""Lessons 01 to 07: wrong answers in a student's own words fail and get the name of what is wrong; right ones pass."""

import pytest
from helpers.answer_keys import answer_key
from helpers.students import judged, play

from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose

LOSS = """
z = logits - logits.{shift}(-1, keepdims=True)
logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
V, mask = logits.shape[-1], {mask}
q = (1 - smoothing) * (targets[..., None] == np.arange(V)) + smoothing / {classes}
return -(q * logp).sum(-1)[mask].{end}
"""
LOSS_BACKWARD = """
p = np.exp(logits - logits.{shift}(-1, keepdims=True))
p /= p.sum(-1, keepdims=True)
mask = targets != ignore_id
q = (1 - smoothing) * (targets[..., None] == np.arange(p.shape[-1])) + smoothing / p.shape[-1]
return np.where(mask[..., None], (p - q) / {n}, 0).astype(logits.dtype)
"""
MASKED = """
top = np.where({seen}, scores, -np.inf).max(-1, keepdims=True)
e = np.where(mask, np.exp(scores - np.where(np.isinf(top), 0, top)), 0)
total = e.sum(-1, keepdims=True)
return np.divide(e, total, out=np.zeros_like(e), where=total > 0)
"""
LINEAR = """
x2, dy2 = x.reshape(-1, x.shape[{axis}]), dy.reshape(-1, dy.shape[{axis}])
return dy @ weight.T, x2.T @ dy2, {dbias}
"""
ATTENTION = """
da = dy @ v.mT {m}
weighted = p * da
z = {z}
return z @ k, z.mT @ q, (p * m).mT @ dy
"""
SCALED = "(weighted - p * weighted.sum(-1, keepdims=True)) {} q.shape[-1] ** 0.5"


def loss(shift="max", mask="targets != ignore_id", classes="V", end="mean()"):
    return LOSS.format(shift=shift, mask=mask, classes=classes, end=end)


@pytest.mark.parametrize("number, body, names", [
    ("01.1", "e = np.exp(z - np.median(z, -1, keepdims=True))\nreturn e / e.sum(-1, keepdims=True)", ["SMF-7"]),
    ("01.1", "e = np.exp(z)\nreturn e / e.sum(0)", ["SMF-1 and SMF-3c"]),
    ("01.2", "return dp - p * dp.sum(-1, keepdims=True)", ["SMB-19"]),
    ("01.2", "return p * (dp - (dp * p).sum(axis=1, keepdims=True))", []),
    ("01.2", "jacobian = np.diag(p) - np.outer(p, p)\nreturn jacobian @ dp", ["SMB-22a"]),
    ("01.3", loss(), None),
    ("01.3", loss("mean"), []),
    ("01.3", loss(classes="(V - 1)"), []),
    ("01.3", loss(mask="targets > 0 * ignore_id - 1"), ["CE-11e"]),
    ("01.4", LOSS_BACKWARD.format(shift="max", n="int(mask.sum())"), None),
    ("01.4", LOSS_BACKWARD.format(shift="mean", n="int(mask.sum())"), []),
    ("01.4", LOSS_BACKWARD.format(shift="max", n="mask.sum(-1, keepdims=True)[..., None]"), []),
    ("02.1", LINEAR.format(axis=-1, dbias="dy2.sum(0)"), None),
    ("02.1", LINEAR.format(axis=1, dbias="dy2.sum(0)"), []),                    # not: .T reverses all axes
    ("02.1", LINEAR.format(axis=-1, dbias="dy.sum(1)"), []),
    ("05.2", ATTENTION.format(m="* m", z=SCALED.format("/")), None),
    ("05.2", ATTENTION.format(m="* m", z=SCALED.format("*")), []),              # one operator, one name
    ("05.2", ATTENTION.format(m="", z=SCALED.format("/")), ["ATB-10a"]),
    ("06.2", "real = ids != pad_id\nreturn real[:, None, None] & real[:, None, :, None]", ["MSK-22"]),
    ("06.3", MASKED.format(seen="mask"), None),
    ("06.3", MASKED.format(seen="True"), ["MSK-24"]),                                   # the maximum over hidden keys
    ("06.3", "e = np.exp(scores - scores.max(-1, keepdims=True)) * mask\nreturn e / e.sum(-1, keepdims=True)",
     ["MSK-10c and MSK-24"]),
    ("07.1", "return np.array(np.split(x, num_heads, axis=-1))", ["HD-15"]),
])
def test_names(number, body, names):
    verdict = judged(answer_key(choose(number)), body)
    assert (verdict.status in ("fail", "error")) == (names is not None)
    assert [" and ".join(together) for together in verdict.mistakes] == (names or [])


@pytest.mark.parametrize("number, edits, name", [
    ("01.5", {"z.max(": "z.min("}, "SMF-7"),
    ("01.5", {"z.max(-1, keepdims=True)": "z.max()"}, "SMF-2"),
    ("07.6", {"self.saved.append((q, k, v, p))": "self.memory = (q, k, v, p)", "self.saved.pop()": "self.memory"},
     "HD-10"),
    ("07.6", {"self.saved.pop()": "self.saved[-1]"}, "HD-10"),
    ("07.6", {"softmax(np.where(mask, scores, -np.inf))": "softmax(scores) * mask"}, "MSK-2"),
])
def test_names_in_classes(number, edits, name):
    key = answer_key(choose(number))
    assert judge(key, play(key, key.exercise.edited(edits))).mistakes == ((name,),)

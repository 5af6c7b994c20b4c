"""The residual stream of pre-norm blocks, and post-norm blocks beneath it, forward and backward."""

BRANCHES = [(1.5, 2.55, 4.25, 5.65, "attention"), (6.45, 7.5, 9.2, 10.6, "feed_forward")]      # fork, norm, layer, sum
PRE, LIFT, POST = 2.6, 1.3, 0.45                    # heights of the streams, and of the branches above the first


def residual_stream(c):
    stream(c)
    c.arrow((0.2, PRE), (11.25, PRE), width=4)
    for fork, norm, layer, joint, _ in BRANCHES:
        c.dot(fork, PRE)
        c.arrow((fork, PRE), (fork, PRE + LIFT), (norm - 0.5, PRE + LIFT))
        c.arrow((norm + 0.5, PRE + LIFT), (layer - 0.85, PRE + LIFT))
        c.arrow((layer + 0.85, PRE + LIFT), (joint, PRE + LIFT), (joint, PRE + 0.17))
        c.note(fork + 0.12, PRE + 0.55, c.word("reads"), ha="left")
        c.note(joint - 0.12, PRE + 0.55, c.word("adds"), ha="right")
    for start, end in POST_WAY:
        c.arrow((start, POST), (end, POST), width=1.8)
    for fork, _, joint, _ in POST_BRANCHES:
        c.dot(fork, POST)
        c.arrow((fork, POST), (fork, POST - 0.6), (joint, POST - 0.6), (joint, POST - 0.17))


def residual_stream_backward(c):
    stream(c, "d")
    c.back((11.25, PRE), (0.2, PRE), width=4)
    for fork, norm, layer, joint, _ in BRANCHES:
        c.back((joint, PRE), (joint, PRE + LIFT), (layer + 0.85, PRE + LIFT))
        c.back((layer - 0.85, PRE + LIFT), (norm + 0.5, PRE + LIFT))
        c.back((norm - 0.5, PRE + LIFT), (fork, PRE + LIFT), (fork, PRE + 0.17))
        c.circle(fork, PRE, role="gradient")
        c.note(fork + 0.12, PRE + 0.55, c.word("adds"), ha="left")
        c.note(joint - 0.12, PRE + 0.55, c.word("reads"), ha="right")
    for start, end in POST_WAY_BACK:
        c.back((start, POST), (end, POST), width=1.8)
    for fork, _, joint, _ in POST_BRANCHES:
        c.circle(fork, POST, role="gradient")
        c.dot(joint, POST, "gradient")
        c.back((joint, POST), (joint, POST - 0.6), (fork, POST - 0.6), (fork, POST - 0.17))


POST_BRANCHES = [(1.5, 2.9, 4.3, "attention"), (6.45, 7.85, 9.25, "feed_forward")]              # fork, layer, sum
POST_WAY = [(0.2, 2.05), (3.75, 4.13), (4.47, 4.9), (5.9, 7.0), (8.7, 9.08), (9.42, 9.85), (10.85, 11.25)]
POST_WAY_BACK = [(11.25, 10.85), (9.85, 8.7), (7.0, 6.62), (6.28, 5.9), (4.9, 3.75), (2.05, 1.67), (1.33, 0.2)]


def stream(c, d=""):
    """What both drawings have in the same places. With d, names are those of gradients."""
    c.frame = (-0.35, -0.75, 11.65, 4.65)
    role = "gradient" if d else "ink"
    c.text(-0.2, PRE + 1.75, c.word("pre"), bold=True, ha="left")
    c.text(-0.2, POST + 0.75, c.word("post"), bold=True, ha="left")
    for y in (PRE, POST):
        c.text(0, y, f"{d}x", role)
        c.text(11.45, y, f"{d}y", role)
    for _, norm, layer, joint, name in BRANCHES:
        c.box(norm, PRE + LIFT, 1.0, 0.55, c.word("norm"))
        c.box(layer, PRE + LIFT, 1.7, 0.55, c.word(name))
        if not d:
            c.circle(joint, PRE)
        else:
            c.dot(joint, PRE, "gradient")
    for _, layer, joint, name in POST_BRANCHES:
        c.box(layer, POST, 1.7, 0.5, c.word(name))
        if not d:
            c.circle(joint, POST)
        else:
            c.dot(joint, POST, "gradient")
        c.box(joint + 1.1, POST, 1.0, 0.5, c.word("norm"))
    c.note(5.75, PRE - 0.5, c.word("straight"))
    c.note(5.75, POST - 0.9, c.word("through"))

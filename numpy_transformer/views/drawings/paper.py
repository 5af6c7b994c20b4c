"""The model of figure 1 in Vaswani et al. 2017: post-norm, with the inputs at the bottom."""

ENCODER, DECODER = 3.1, 8.1                         # columns
WIDTH, HIGH = 2.5, 0.46                             # of a box
BASE, STEP = 1.6, 2.02                              # where the blocks begin; the height of a sublayer with its sum and norm


def encoder_and_decoder(c):
    for x, side, label, sublayers in ((ENCODER, -1, "N ×", 2), (DECODER, 1, "× N", 3)):
        entrance(c, x, side)
        c.panel(x + 0.12 * side, BASE + STEP * sublayers / 2 + 0.1, 3.3, STEP * sublayers + 0.08)
        c.text(x + 2.1 * side, BASE + STEP * sublayers / 2, label, bold=True)
    sublayer(c, ENCODER, BASE, "self_attention", -1)
    sublayer(c, ENCODER, BASE + STEP, "feed_forward", -1)
    memory = c.box(ENCODER, BASE + 2 * STEP + 0.45, WIDTH, HIGH, c.word("memory"))
    c.arrow((ENCODER, BASE + 2 * STEP - 0.04), memory.bottom)
    sublayer(c, DECODER, BASE, "masked_self_attention", 1)
    cross = sublayer(c, DECODER, BASE + STEP, "cross_attention", 1)
    c.arrow(memory.right, (5.35, memory.y), (5.35, cross.y), cross.left)
    c.text(5.5, cross.y + 0.2, "k, v", ha="left")
    c.text(DECODER - 0.15, cross.bottom[1] - 0.2, "q", ha="right")
    sublayer(c, DECODER, BASE + 2 * STEP, "feed_forward", 1)
    y = BASE + 3 * STEP - 0.04
    linear = c.box(DECODER, y + 0.52, WIDTH, HIGH, c.word("linear"), "parameter")
    softmax = c.box(DECODER, y + 1.2, WIDTH, HIGH, "softmax", "weight")
    c.arrow((DECODER, y), linear.bottom)
    c.arrow(linear.top, softmax.bottom)
    c.arrow(softmax.top, (DECODER, y + 1.8))
    c.text(DECODER, y + 1.98, c.word("probabilities"))
    c.note(0.75, y + 1.98, c.word("notes"), ha="left", va="top")


def entrance(c, x, side):
    """The embedding times sqrt(D), plus positions, with dropout."""
    c.text(x, -0.42, c.word("source" if side < 0 else "target"))
    embedding = c.box(x, 0.3, WIDTH, HIGH, c.word("embedding"), "parameter")
    joint = c.circle(x, 0.95)
    positions = c.box(x + 1.65 * side, 0.95, 1.35, 0.6, c.word("positions"))
    c.arrow((x, -0.24), embedding.bottom)
    c.arrow(embedding.top, joint.bottom)
    c.arrow(*((positions.right, joint.left) if side < 0 else (positions.left, joint.right)))
    c.arrow(joint.top, (x, BASE + 0.1), head=False)
    c.note(x - 0.12 * side, 1.32, c.word("dropout"), ha="left" if side < 0 else "right")


def sublayer(c, x, y, name, side):
    """A sublayer, its sum and its norm, upwards from y. Returns the box of the sublayer."""
    lane = x + side * (WIDTH / 2 + 0.22)
    box = c.box(x, y + 0.7, WIDTH, 0.56, c.word(name))
    joint = c.circle(x, y + 1.4)
    norm = c.box(x, y + 1.81, WIDTH, 0.34, c.word("norm"))
    c.arrow((x, y - 0.04), box.bottom)
    c.dot(x, y + 0.17)
    c.arrow((x, y + 0.17), (lane, y + 0.17), (lane, joint.y), joint.right if side > 0 else joint.left)
    c.arrow(box.top, joint.bottom)
    c.arrow(joint.top, norm.bottom, head=False)
    c.note(x - 0.25 * side, y + 1.15, c.word("dropout"), ha="left" if side < 0 else "right")
    return box

"""Where scores and logits are kept small: on the way from queries and keys to the loss."""


def tame_scores(c):
    y, half = 3.2, 0.24
    x = c.cells(0.7, y, 1, 3, size=0.25)
    c.text(x.x, x.top[1] + 0.22, "x")
    linear = c.box(2.02, y, 1.2, 2 * half, "W_Q, W_K", "parameter")
    norm = c.box(3.4, y, 0.9, 2 * half, c.word("norm"), "query", bold=True)
    scores = c.box(4.7, y, 1.15, 2 * half, "q kᵀ / √d")
    cap = c.box(6.0, y, 0.9, 2 * half, c.word("cap"), "query", bold=True)
    softmax = c.box(7.6, y, 1.65, 2 * half, c.word("softmax"))
    mean = c.box(9.15, y, 0.8, 2 * half, "P v")
    product = c.circle(10.15, y, "×")
    output = c.box(11.05, y, 0.75, 2 * half, "W_O", "parameter")
    gate = c.box(10.15, y - 1.25, 1.75, 2 * half, c.word("gate"), "query", bold=True)
    chain = [x, linear, norm, scores, cap, softmax, mean, product, output]
    for one, other in zip(chain, chain[1:]):
        c.arrow(one.right, other.left)
    fork = 1.18
    c.arrow((fork, y), (fork, gate.y), gate.left)
    c.dot(fork, y)
    c.arrow(gate.top, product.bottom)
    later = c.box(11.05, y + 1.25, 1.75, 2 * half, c.word("later"))
    logits = c.box(8.5, y + 1.25, 1.2, 2 * half, c.word("logits"))
    loss = c.box(6.1, y + 1.25, 2.35, 2 * half, c.word("loss"), "query", bold=True)
    c.arrow(output.top, later.bottom)
    c.arrow(later.left, logits.right)
    c.arrow(logits.left, loss.right)
    below = y - half - 0.14
    for area, key in ((norm, "norm_bound"), (cap, "cap_bound")):
        c.note(area.x, below, c.word(key), va="top", role="query")
    c.note(gate.left[0] - 0.15, gate.y + 0.2, c.word("gate_bound"), ha="right", role="query")
    c.note(loss.left[0] - 0.15, loss.y, c.word("loss_bound"), ha="right", role="query")

"""A frozen matrix with a small trained update beside it."""


def low_rank(c):
    x = c.cells(0.75, 3.0, 1, 6, size=0.25)
    frozen = c.cells(5.0, 4.2, 6, 6, "muted", size=0.25)
    a = c.cells(3.6, 1.4, 6, 2, "parameter", size=0.25)
    b = c.cells(6.4, 1.4, 2, 6, "parameter", size=0.25)
    joint = c.circle(8.9, 3.0)
    y = c.cells(10.6, 3.0, 1, 6, size=0.25)
    for area, name in ((x, "x"), (frozen, c.word("frozen")), (a, "A (d_in, r)"), (b, "B (r, d_out)"), (y, "y = x W + b + s h B")):
        c.text(area.x, area.top[1] + 0.22, name)
    up, down = 0.07, -0.07                              # the gradient's way is below that of the numbers, or beside it
    fork = 1.9
    c.arrow((x.right[0], 3.0 + up), (fork, 3.0 + up), (fork, frozen.y + up), (frozen.left[0], frozen.y + up))
    c.arrow((fork, 3.0 + up), (fork, a.y + up), (a.left[0], a.y + up))
    c.arrow((frozen.right[0], frozen.y + up), (joint.x + up, frozen.y + up), (joint.x + up, joint.top[1]))
    c.arrow((a.right[0], a.y + up), (b.left[0], b.y + up))
    c.note((a.x + b.x) / 2 - 0.15, a.y + 0.25, "h = x A")
    c.arrow((b.right[0], b.y + up), (joint.x - up, b.y + up), (joint.x - up, joint.bottom[1]))
    c.arrow((joint.right[0], 3.0 + up), (y.left[0], 3.0 + up))
    c.back((y.left[0], 3.0 + down), (joint.right[0], 3.0 + down))
    c.back((joint.x + down, joint.top[1]), (joint.x + down, frozen.y + down), (frozen.right[0], frozen.y + down))
    c.back((joint.x + up, joint.bottom[1]), (joint.x + up, b.y + down), (b.right[0], b.y + down))
    c.back((b.left[0], b.y + down), (a.right[0], a.y + down))
    meet = fork - 2 * up
    c.back((frozen.left[0], frozen.y + down), (meet, frozen.y + down), (meet, 3.0 + down), (x.right[0], 3.0 + down))
    c.back((a.left[0], a.y + down), (meet, a.y + down), (meet, 3.0 + down), head=False)
    c.note(a.x, a.bottom[1] - 0.12, "dA = s xᵀ dy Bᵀ", va="top", role="gradient")
    c.note(b.x, a.bottom[1] - 0.12, "dB = s hᵀ dy", va="top", role="gradient")
    c.note(frozen.x, frozen.bottom[1] - 0.12, c.word("no_gradient"), va="top", role="gradient")
    c.text(x.x, x.bottom[1] - 0.22, "dx", "gradient")
    c.text(y.x, y.bottom[1] - 0.22, "dy", "gradient")

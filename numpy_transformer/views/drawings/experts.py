"""A router, the experts that a token has chosen, and one that all tokens share."""

GATES = ["0", "0.7", "0", "0.3"]
TOP, STEP = 4.1, 0.9                                    # the height of the first expert, and the distance to the next


def experts(c):
    rows = [TOP - STEP * n for n in range(len(GATES))]
    shared_row = rows[-1] - 1.15
    middle = (rows[1] + rows[3]) / 2
    x = c.cells(0.75, middle, 1, 5, size=0.25)
    router = c.box(4.3, TOP + 1.25, 2.2, 0.55, c.word("router"), "parameter")
    gates = c.cells(7.15, sum(rows) / len(rows), len(GATES), 1, "weight", STEP, 0.75, [[gate] for gate in GATES])
    joint = c.circle(8.85, middle)
    y = c.cells(10.4, middle, 1, 5, size=0.25)
    c.text(x.x, x.top[1] + 0.22, "x")
    c.text(y.x, y.top[1] + 0.22, "y")
    c.text(x.x, x.bottom[1] - 0.22, "dx", "gradient")
    c.text(y.x, y.bottom[1] - 0.22, "dy", "gradient")
    up, down = 0.07, -0.07                              # the gradient's way is below that of the numbers, or beside it
    fork, meet = 1.95, 1.81
    c.arrow((x.right[0], middle + up), (fork, middle + up), head=False)
    c.arrow((fork, shared_row + up), (fork, router.y + up), (router.left[0], router.y + up))
    c.arrow((router.right[0], router.y + up), (gates.x + up, router.y + up), (gates.x + up, gates.top[1]))
    c.note(gates.x + 0.25, gates.top[1] + 0.42, "g", ha="left")
    for number, (row, gate) in enumerate(zip(rows, GATES)):
        chosen = gate != "0"
        box = c.box(4.3, row, 2.2, 0.55, c.word("expert", number=number), "parameter" if chosen else "muted",
                    1.0 if chosen else 0.4)
        if chosen:
            c.arrow((fork, row + up), (box.left[0], row + up))
            c.arrow((box.right[0], row + up), (gates.left[0], row + up))
            c.back((gates.left[0], row + down), (box.right[0], row + down))
            c.back((box.left[0], row + down), (meet, row + down), head=False)
        else:
            c.note((box.right[0] + gates.left[0]) / 2, row, c.word("idle"))
    shared = c.box(4.3, shared_row, 2.2, 0.55, c.word("shared"), "parameter")
    c.arrow((fork, shared_row + up), (shared.left[0], shared_row + up))
    c.back((shared.left[0], shared_row + down), (meet, shared_row + down), head=False)
    for row, start in ((rows[1], gates.right[0]), (rows[3], gates.right[0]), (shared_row, shared.right[0])):
        end = joint.top[1] if row > middle else joint.bottom[1]
        if row == rows[3]:
            continue
        c.arrow((start, row + up), (joint.x + up, row + up), (joint.x + up, end))
        c.back((joint.x + down, end), (joint.x + down, row + down), (start, row + down))
    c.arrow((gates.right[0], rows[3] + up), (joint.x + up, rows[3] + up), head=False)
    c.back((joint.x + down, rows[3] + down), (gates.right[0], rows[3] + down))
    c.arrow((joint.right[0], middle + up), (y.left[0], middle + up))
    c.back((y.left[0], middle + down), (joint.right[0], middle + down))
    c.back((gates.x + down, gates.top[1]), (gates.x + down, router.y + down), (router.right[0], router.y + down))
    c.note((router.right[0] + gates.x) / 2, router.y + down - 0.2, "dg = dy · h", role="gradient")
    c.back((router.left[0], router.y + down), (meet, router.y + down), (meet, shared_row + down), head=False)
    c.back((meet, middle + down), (x.right[0], middle + down))

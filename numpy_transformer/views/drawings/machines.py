"""Several machines: gradients summed in a ring, and parameters, gradients and optimizer states split among them."""

MACHINES = 4


def ring(c):
    start = [[1] * MACHINES for _ in range(MACHINES)]       # how many machines' gradients each part of each machine sums
    scattered = passed_on(start, first=-1, add=True)
    gathered = passed_on(scattered, first=0, add=False)
    states = [("start", start), ("scattered", scattered), ("gathered", gathered)]
    for n, (key, state) in enumerate(states):
        x = 1.9 + 4.05 * n
        c.text(x, 4.0, c.word(key), bold=True)
        spots = [(x - 1.0, 2.9), (x + 1.0, 2.9), (x + 1.0, 1.2), (x - 1.0, 1.2)]
        areas = []
        for machine, (left, y) in enumerate(spots):
            complete = [count == MACHINES for count in state[machine]]
            areas.append(c.cells(left, y, 1, MACHINES, size=0.37, values=[state[machine]],
                                 roles=[["gradient" if full else "muted" for full in complete]],
                                 shades=[[0.35 * full for full in complete]]))
            c.note(left, y + (0.35 if machine < 2 else -0.35), c.word("machine", n=machine))
        one, two, three, four = areas
        if key != "gathered":
            c.back(one.right, two.left)
            c.back(two.bottom, three.top)
            c.back(three.left, four.right)
            c.back(four.top, one.bottom)
    c.note(5.95, 0.35, c.word("counts"), va="top")


def passed_on(counts, first, add):
    """In each step, machine i sends part i + first - step to the next machine, which adds it to its own or keeps it instead."""
    for step in range(MACHINES - 1):
        sent = [(machine, (machine + first - step) % MACHINES) for machine in range(MACHINES)]
        after = [list(row) for row in counts]
        for machine, part in sent:
            following = after[(machine + 1) % MACHINES]
            following[part] = counts[machine][part] + (following[part] if add else 0)
        counts = after
    return counts


def sharding(c):
    parts = {"parameters": 4, "gradients": 4, "states": 8}  # bytes for each parameter: float32, and two numbers of Adam
    plans = [("none", set()), ("states", {"states"}), ("gradients", {"states", "gradients"}), ("parameters", set(parts))]
    roles = {"parameters": "parameter", "gradients": "gradient", "states": "ink"}
    for machine in range(MACHINES):
        c.text(3.7 + 1.65 * machine, 5.1, c.word("machine", n=machine + 1), small=True)
    c.text(10.3, 5.1, c.word("memory"), small=True)
    for n, (key, sharded) in enumerate(plans):
        y = 4.3 - 1.1 * n
        c.text(0, y, c.word(f"plan_{key}"), ha="left")
        for machine in range(MACHINES):
            top = y + 0.4
            for part, size in parts.items():
                held = [part not in sharded or quarter == machine for quarter in range(MACHINES)]
                height = 0.05 * size
                c.cells(3.7 + 1.65 * machine, top - height / 2, 1, MACHINES, size=height, width=0.32,
                        roles=[[roles[part] if there else "muted" for there in held]], shades=[[0.4 * there for there in held]])
                top -= height
        each = sum(size / (MACHINES if part in sharded else 1) for part, size in parts.items())
        c.text(10.3, y, c.word("bytes", n=f"{each:.0f}"))
    for n, part in enumerate(parts):
        x = 0.1 + 3.6 * n
        c.cells(x + 0.1, 0.15, 1, 1, roles[part], size=0.24, width=0.32, shades=[[0.4]])
        c.note(x + 0.4, 0.15, c.word(part), ha="left")

"""The bits of small numbers, and integers that share a scale."""

SIZE = 0.27
FORMATS = (("float32", 8, 23), ("bfloat16", 8, 7), ("float8 E4M3", 4, 3), ("float8 E5M2", 5, 2))


def small_numbers(c):
    left = 2.2
    for n, (name, exponent_bits, fraction_bits) in enumerate(FORMATS):
        y = 4.6 - 0.5 * n
        roles = ["query"] + ["key"] * exponent_bits + ["value"] * fraction_bits
        area = c.cells(left + len(roles) * SIZE / 2, y, 1, len(roles), size=SIZE, roles=[roles])
        c.text(left - 0.2, y, name, ha="right")
        c.note(area.right[0] + 0.15, y, c.word("bits", count=len(roles)), ha="left")
        if n == 0:
            top = area.top[1] + 0.05
            for key, role, start, end in (("sign", "query", 0, 1), ("exponent", "key", 1, 9), ("fraction", "value", 9, 32)):
                c.brace((left + (start + 0.12) * SIZE, top), (left + (end - 0.12) * SIZE, top), c.word(key), "above", role)
    y = 2.2
    c.text(left - 0.2, y, "int4", ha="right")
    codes = (3, -7, 0, 5, 1, -2, 2, -1)
    area = c.cells(left + 4 * SIZE * 4 / 2, y, 1, 8, "parameter", size=SIZE + 0.08, width=2 * SIZE, values=[codes])
    c.brace((left, area.bottom[1] - 0.05), (area.right[0], area.bottom[1] - 0.05), c.word("group", count=len(codes)), "below")
    times = c.text(area.right[0] + 0.3, y, "· a / 7", ha="left")
    times.set_weight("bold")
    c.note(area.right[0] + 1.25, y, c.word("scale"), ha="left")

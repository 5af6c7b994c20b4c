"""The words that tell a student where a mistake is. They never say what belongs there."""

MOST_CORRECT = 3                                # variables that are named
LONGEST = 44                                    # characters of a quoted expression
LOOK_AT = {
    "operator": "the operator", "order": "the order", "sign": "the sign", "comparison": "the comparison",
    "condition": "the condition", "constant": "the number", "axis": "the axis", "keepdims": "keepdims",
    "call": "which function is called", "argument": "the arguments of the call", "transposition": "transposes",
    "index": "the index", "name": "which variable belongs there", "names": "which variable belongs where",
    "grouping": "where parentheses belong", "power": "the power", "factor": "factors",
    "operand": "whether both parts belong there", "statement": "whether this statement belongs there"}
MISSING = {"operand": "which term is missing", "factor": "which factor is missing", "call": "which call is missing",
           "axis": "which sum is missing", "sign": "the sign", "power": "which power is missing"}


def describe_places(edits):
    """Returns lines about the places where one change makes all cases right. They do not say which change."""
    if not edits:
        return []
    first, *others = edits
    others = [other for other in others if other.line != first.line][:1]
    lines = [f"DIAGNOSIS Line {first.line}, {placed(first)}: one change there makes all cases right. "
             f"Look at {what(first)}."]
    return lines + [f"So does one change in line {other.line}, {placed(other)}: look at {what(other)}."
                    for other in others]


def placed(edit):
    return f"{quoted(edit.text)} in {quoted(edit.around)}" if edit.around else quoted(edit.text)


def what(edit):
    """Returns what kind of thing is wrong at an edit."""
    return (MISSING if edit.inserts and edit.kind in MISSING else LOOK_AT).get(edit.kind, "this part")


def describe_value(values, right, number):
    """Returns a line about the first suspicious value, and about the correct ones before it."""
    node, relation = values.nodes[number], values.relation(number)
    before = correct_names(values, right, number)
    which = "none" if before else "no correct solution"
    advice = f"; it is {relation}." if relation else (
        ". The mistake may be in this step, in what it uses, or, if this is a way of your own, in what follows.")
    return (f"DIAGNOSIS {before}Line {node.line}, {quoted(node.text)}, is the first whose value occurs in {which} that "
            f"the checker knows{advice}")


def describe_index(line, index, axis, size, name, length):
    """Returns a line about an index that is too large for an array, and would fit an output of this name."""
    return (f"DIAGNOSIS Line {line} uses the index {index} along axis {axis} of an array with {size} entries there. "
            f"{name} has {length} along this axis: do these indices belong to {name}?")


def correct_names(values, right, number):
    """Returns a sentence that names variables with correct values before this node, or ""."""
    line = values.nodes[number].line
    named = {values.nodes[i].name: None for i in sorted(right) if values.nodes[i].name and values.nodes[i].line < line}
    if not named:
        return ""
    *names, last = [*named][-MOST_CORRECT:]
    if not names:
        return f"The value of {last} occurs in a correct solution too. "
    return f"The values of {', '.join(names)} and {last} occur in a correct solution too. "


def quoted(text):
    return f"`{text if len(text) <= LONGEST else text[:LONGEST - 4] + ' ...'}`"

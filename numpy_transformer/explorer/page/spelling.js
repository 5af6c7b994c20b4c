// Ways through a spelling, which is a formula with all its numbers (FORMAT.md).

// A term and all terms below it, as a list.
export function walk(tree, found = []) {
  found.push(tree);
  for (const part of tree.terms) {
    walk(part, found);
  }
  if (tree.condition) {
    walk(tree.condition, found);
  }
  return found;
}

// The entries of arrays that the trees read, each once.
export function entriesOf(trees) {
  const found = new Map();
  for (const tree of trees) {
    for (const { kind, array, index, value } of walk(tree)) {
      if (kind === "entry" && !found.has(`${array}[${index}]`)) {
        found.set(`${array}[${index}]`, { array, index, value });
      }
    }
  }
  return [...found.values()];
}

const NOT_FINITE = { inf: Infinity, "-inf": -Infinity, nan: NaN };

// JSON has no infinities: Python sends them as strings, and here they become numbers again.
export function reviveNumbers(tree) {
  if (Array.isArray(tree)) {
    return tree.map(reviveNumbers);
  }
  if (tree === null || typeof tree !== "object") {
    return tree;
  }
  return Object.fromEntries(Object.entries(tree).map(([key, value]) => [
    key, key === "value" && value in NOT_FINITE ? NOT_FINITE[value] : reviveNumbers(value),
  ]));
}

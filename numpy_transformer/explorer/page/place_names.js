// Names for the places of a sum's terms.

import { axesOf, batchOf, placeText } from "explorer/refs";

// What a summation variable stands for: "token 2 “sat”" where its axis has a name, "j = 2" otherwise.
export function placeNamer(app, formula, refOf) {
  const { doc } = app.state.get();
  const ranges = rangesOf(formula.body);
  return (variable, i) => {
    if (Array.isArray(i)) return leadingPlaces(app, refOf(ranges.get("...")?.array), i);
    const range = ranges.get(variable);
    const ref = range && range.array ? refOf(range.array) : null;
    const info = ref ? app.store.info(ref) : null;
    if (!info || range.axis === undefined) return `${variable} = ${i}`;
    const axes = axesOf(doc, ref, info.shape);
    const axis = axes[range.axis < 0 ? axes.length + range.axis : range.axis];
    return axis ? placeText(doc, axis, i) : `${variable} = ${i}`;
  };
}

// The entries of the leading axes that a sum runs over together: "batch 0, token 4 “dog”"; axes of one entry go without saying.
function leadingPlaces(app, ref, index) {
  const info = ref ? app.store.info(ref) : null;
  if (!info) return index.length ? `[${index.join(", ")}]` : "";
  const { doc } = app.state.get();
  const axes = axesOf(doc, ref, info.shape);
  const said = index.map((i, axis) =>
    info.shape[axis] > 1 ? placeText(doc, axes[axis], i, batchOf(axes, index)) : "",
  );
  return said.filter(Boolean).join(", ");
}

function rangesOf(node, found = new Map()) {
  if (Array.isArray(node)) node.forEach((each) => rangesOf(each, found));
  if (!node || typeof node !== "object" || Array.isArray(node)) return found;
  (Array.isArray(node.over) ? node.over : []).forEach((range) => found.set(range.rest ? "..." : range.var, range));
  Object.values(node).forEach((each) => rangesOf(each, found));
  return found;
}

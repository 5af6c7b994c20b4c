// A formula as it is shown. One place, so that all panels show it alike.

import { h } from "explorer/dom";
import { formulaToMathML } from "explorer/mathml";

// Names of the operation's arrays get the colors of their heatmaps; letters that the formula itself introduces do not.
export function formulaView(formula, op, written) {
  const lines = h("div", { class: "formula-lines", title: formula.text }, formulaToMathML(formula, written));
  const names = new Set(Object.keys({ ...op.inputs, ...op.parameters, ...op.outputs }));
  for (const letter of lines.querySelectorAll("[data-name]")) {
    const { name } = letter.dataset;
    if (names.has(name)) {
      letter.classList.add("symbol-value");
    } else if (name.startsWith("d") && names.has(name.slice(1))) {
      letter.classList.add("symbol-gradient");
    }
  }
  return lines;
}

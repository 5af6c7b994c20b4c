// A formula as it is shown. One place, so that all panels show it alike.

import { h } from "explorer/dom";
import { formulaToMathML } from "explorer/mathml";

export function formulaView(formula) {
  return h("div", { class: "formula-lines", title: formula.text }, formulaToMathML(formula));
}

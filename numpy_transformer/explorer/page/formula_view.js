// A formula as it is shown. One place, so that all panels show it alike.

import { h } from "explorer/dom";

export function formulaView(formula) {
  return h("span", { class: "mono formula-text" }, formula.text);
}

// Horizontal bars with a label and a number each, as a list that screen readers can read and keys can walk through.

import { h } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { cssColor } from "explorer/colors";

/**
 * items: {label, number, text, kind, marked, ref, index, title}. The bars share one scale that ends at `limit`; with
 * signed: true, 0 stands in the middle. `choose(item)` is called for an item that belongs to a cell (ref and index).
 */
export function bars(items, { limit, signed = false, choose, name, key }) {
  return h("ul", { class: signed ? "bars signed" : "bars", "aria-label": name }, items.map((item, i) => {
    const content = [h("span", { class: "bars-label" }, item.label), track(item, limit, signed),
      h("span", { class: "bars-number number", "data-value": item.number }, item.text ?? formatNumber(item.number))];
    const title = item.title ?? `${item.label}: ${fullNumber(item.number)}`;
    const marks = { class: item.marked ? "bars-row marked" : "bars-row", title, "data-ref": item.ref,
      "data-cell": item.index && item.index.join(",") };
    if (!item.ref || !choose) return h("li", {}, h("div", marks, content));
    const action = { type: "button", "data-key": `${key}-${i}`, onclick: () => choose(item) };
    return h("li", {}, h("button", { ...marks, ...action }, content));
  }));
}

function track({ number, kind = "value" }, limit, signed) {
  const share = limit > 0 && Number.isFinite(number) ? Math.min(1, Math.abs(number) / limit) : 0;
  const full = signed ? 50 : 100;
  const style = { width: `${full * share}%`, background: cssColor(kind, Math.sign(number) * limit * 0.75, limit) };
  if (signed) style["margin-left"] = `${number < 0 ? 50 - full * share : 50}%`;
  return h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: "meter-fill", style }));
}

// The terms of a sum as a list: the largest first, each with its place, its factors, its number and a bar; the rest
// folded into one line that says how many there are and what they add.

import { h } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { t } from "explorer/strings";

const FIRST = 6;
const MORE = 40;

// `context`: {write, placeName(variable, i)}; `sum` is an evaluated sum, mean or max.
export function termList(sum, context) {
  const rows = sum.terms.map((term, i) => ({ term, place: (sum.places || [])[i] || {} }));
  rows.sort((left, right) => sizeOf(right.term) - sizeOf(left.term));
  const finite = rows.map(({ term }) => Math.abs(term.value)).filter(Number.isFinite);
  const largest = finite.reduce((most, size) => Math.max(most, size), 0) || 1;
  const list = h("ol", { class: "terms" });
  const heading = t(`terms.${sum.kind}`, { n: rows.length, total: formatNumber(sum.value) });
  const row = (entry) => termRow(entry, largest, context);
  const nonzero = rows.filter(({ term }) => term.value !== 0).length; // masked terms need no line of their own
  fill(list, rows, Math.min(FIRST, Math.max(1, nonzero)), row);
  return h("section", { class: "term-list" }, h("h4", {}, heading), list);
}

// Terms that are not numbers come first: they decide the sum.
export function sizeOf(term) {
  return Number.isNaN(term.value) ? Infinity : Math.abs(term.value);
}

// The first `count` of the rows, and a button for more.
export function fill(list, rows, count, row) {
  list.append(...rows.slice(0, count).map(row));
  const rest = rows.slice(count);
  if (!rest.length) return;
  const total = rest.reduce((sum, { term }) => sum + term.value, 0);
  const button = h(
    "button",
    { type: "button", class: "quiet" },
    t("terms.more", { n: rest.length, total: formatNumber(total) }),
  );
  const place = h("li", { class: "more" }, button);
  button.addEventListener("click", () => {
    const before = list.children.length - 1;
    place.remove();
    fill(list, rest, MORE, row);
    const next = list.children[before].querySelector("a, button");
    if (next) next.focus();
  });
  list.append(place);
}

function termRow({ term, place }, largest, context) {
  const name = Object.entries(place)
    .map(([variable, i]) => context.placeName(variable, i))
    .filter(Boolean)
    .join(", ");
  const plain = term.kind === "entry" || term.kind === "number";
  const result = plain
    ? []
    : [" = ", h("span", { class: "term-value", title: fullNumber(term.value) }, formatNumber(term.value))];
  const line = h("div", { class: "spelled-line" }, ...context.write.inside(term), ...result);
  return h("li", { class: "term" }, h("span", { class: "term-place" }, name), bar(term.value, largest), line);
}

// To the left for negative terms, to the right for positive ones, from a common zero.
export function bar(value, largest) {
  const share = Number.isFinite(value) ? Math.min(1, Math.abs(value) / largest) : 0;
  const fill = h("span", { class: value < 0 ? "bar-fill negative" : "bar-fill positive" });
  fill.style.width = `${50 * share}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

// The head of a component's panel: name and class, where it stands, and its formulas.

import { h } from "explorer/dom";
import { shortestNumber } from "explorer/format";
import { t } from "explorer/strings";
import { opLink } from "explorer/links";
import { lookup } from "explorer/lookup";
import { formulaView } from "explorer/formula_view";

export function componentHead(app, item, isGroup) {
  const { doc } = app.state.get();
  const description = (doc.classes || {})[item.class] || {};
  return h(
    "header",
    { class: "component-head" },
    h("h2", {}, item.label || item.id, nameOfKind(item)),
    place(app, item),
    numbers(item),
    isGroup || item.kind === "variables" ? words(description) : formulas(doc, item, description),
  );
}

// Code between components has no class: what it computes stands in its place.
function nameOfKind(item) {
  if (item.class) return h("span", { class: "class-name mono" }, item.class);
  return h("span", { class: "class-name" }, t(`kind.${item.kind}`));
}

// The groups around it, from the outermost inward.
function place(app, item) {
  const look = lookup(app.state.get().doc);
  const groups = look.ancestors(item.id).map((id) => look.group(id));
  if (!groups.length) return null;
  const links = groups.map((group, i) => [
    i > 0 && h("span", { class: "divider", "aria-hidden": "true" }, " › "),
    opLink(app, group),
  ]);
  return h("p", { class: "component-place" }, `${t("component.place")} `, links);
}

function numbers(item) {
  const entries = Object.entries(item.numbers || {});
  if (!entries.length) return null;
  const said = entries.map(
    ([name, number]) => `${name} = ${typeof number === "number" ? shortestNumber(number) : number}`,
  );
  return h("p", { class: "note mono" }, said.join(", "));
}

// What the class says of itself: its formula and its backward, in a line each.
function words(description) {
  const backward = [description.backward || []].flat();
  if (!description.summary && !backward.length) return null;
  return h(
    "dl",
    { class: "docstring" },
    description.summary && [h("dt", {}, t("component.forward")), h("dd", { class: "is-forward" }, description.summary)],
    backward.length > 0 && [
      h("dt", {}, t("component.backward")),
      h(
        "dd",
        { class: "is-backward" },
        backward.map((line) => h("span", {}, line)),
      ),
    ],
  );
}

// The formulas entry by entry, as the numbers are spelled out, each symbol in the color of its heatmap. Where a class has none,
// its own words stand there.
function formulas(doc, item, description) {
  const targets = Object.keys(item.formulas || {});
  if (!targets.length) return [words(description), h("p", { class: "note" }, t("component.no_formula"))];
  const written = new Set();
  const list = targets.map((target) => {
    const backward = !item.outputs[target];
    return h(
      "div",
      { class: backward ? "formula is-backward" : "formula is-forward" },
      formulaView(doc.formulas[item.formulas[target]], item, written),
    );
  });
  return h("div", { class: "formulas" }, list);
}

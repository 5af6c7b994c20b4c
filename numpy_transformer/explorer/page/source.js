// The source of a component's forward and backward, with the line that made the chosen array highlighted. Code between
// components, such as a residual "+", stands in the class around it.

import { h } from "explorer/dom";
import { lookup } from "explorer/lookup";
import { isGradient, parseRef } from "explorer/refs";
import { t } from "explorer/strings";

export function sourceOf(doc, item, ref) {
  const classes = doc.classes || {};
  const parent = lookup(doc).group(item.parent);
  const around = parent ? classes[parent.class] : null;
  const own = item.class ? classes[item.class] : null;
  const called = item.called_at || {};
  if (own) {
    return h("section", { class: "sources" }, listings(own, item.class, markedLines(item, ref)), around && calls(around, parent.class, called));
  }
  if (around) return h("section", { class: "sources" }, listings(around, parent.class, called));
  return item.class ? h("p", { class: "note" }, t("source.none")) : null;
}

// The line that made the chosen array; none is marked as long as nothing is chosen.
function markedLines(item, ref) {
  const lines = item.lines || {};
  if (!ref) return {};
  const { value } = parseRef(ref);
  const slots = { ...item.inputs, ...item.parameters, ...item.outputs };
  const name = Object.keys(slots).find((slot) => [slots[slot]].flat().includes(value));
  if (!name) return {};
  return isGradient(ref) ? { backward: lines[`d${name}`] } : { forward: lines[name] };
}

function listings(description, className, marked) {
  const parts = [["forward", description.forward], ["backward", description.backward_source]].filter(([, part]) => part && part.lines);
  return parts.map(([phase, part]) => listing(t(`source.${phase}`, { class: className }), phase, part, description.file, marked[phase]));
}

function listing(title, phase, { first, lines }, file, markedLine) {
  const indent = Math.min(...lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
  const rows = lines.map((line, i) => row(first + i, line.slice(indent), first + i === markedLine));
  return h("figure", { class: `source is-${phase}` }, h("figcaption", {}, title, h("span", { class: "note" }, ` ${file || ""}`)),
    h("pre", { tabindex: "0", role: "group", "aria-label": title }, h("code", {}, rows)));
}

function row(number, text, marked) {
  return h("span", { class: marked ? "line marked" : "line", "data-line": number, "aria-current": marked ? "true" : null },
    h("span", { class: "line-number", "aria-hidden": "true" }, number), h("span", { class: "line-code" }, `${text || " "}\n`));
}

// The single lines of the class around it that call this component.
function calls(around, className, called) {
  const lineAt = (number) => [around.forward, around.backward_source, ...(around.more || [])]
    .filter((part) => part && part.lines).map(({ first, lines }) => lines[number - first]).find((line) => line !== undefined);
  const rows = ["forward", "backward"].filter((phase) => called[phase] && lineAt(called[phase]));
  return rows.map((phase) => h("figure", { class: `source is-${phase}` },
    h("figcaption", {}, t("source.called", { line: called[phase], class: `${className}.${phase}` })),
    h("pre", { tabindex: "0", role: "group", "aria-label": t("source.called", { line: called[phase], class: className }) },
      h("code", {}, row(called[phase], lineAt(called[phase]).trim(), false)))));
}

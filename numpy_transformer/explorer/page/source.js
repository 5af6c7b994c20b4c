// The source of a component's forward and backward, with the line that made the chosen array highlighted. Code between
// components, such as a residual "+", stands in the class around it.

import { h } from "explorer/dom";
import { lookup } from "explorer/lookup";
import { isGradient, parseRef } from "explorer/refs";
import { t } from "explorer/strings";

export function sourceOf(doc, item, ref) {
  const classes = doc.classes || {};
  const parent = lookup(doc).group(item.parent);
  const aroundName = parent ? parent.class : doc.model.class;
  const around = classes[aroundName];
  const own = item.class ? classes[item.class] : null;
  const marked = markedLines(item, ref);
  if (own) {
    return h(
      "section",
      { class: "sources" },
      partsOf(own, item.class).map((part) => listing(part, own.file, marked)),
      around && calls(around, aroundName, item.called_at || {}),
    );
  }
  if (item.class || !around) return h("p", { class: "note" }, t("source.none"));

  // Of a longer class, the functions that contain one of the op's lines.
  const lines = Object.values(item.lines || {});
  const parts = partsOf(around, aroundName).filter((part) =>
    lines.some((line) => line >= part.first && line < part.first + part.lines.length),
  );
  const shown = marked.length ? marked : lines;
  return h(
    "section",
    { class: "sources" },
    parts.map((part) => listing(part, around.file, shown)),
  );
}

// The functions of a class: forward, backward, and those in which they call its parts.
function partsOf(description, className) {
  const main = [
    ["forward", description.forward],
    ["backward", description.backward_source],
  ]
    .filter(([, part]) => part && part.lines)
    .map(([phase, part]) => ({ ...part, phase, title: t(`source.${phase}`, { class: className }) }));
  const more = (description.more || []).map((part) => ({
    ...part,
    phase: /backward/.test(part.name) ? "backward" : "forward",
    title: part.name,
  }));
  return [...main, ...more];
}

// The line that made the chosen array; none is marked as long as nothing is chosen.
function markedLines(item, ref) {
  if (!ref) return [];
  const { value } = parseRef(ref);
  const slots = { ...item.inputs, ...item.parameters, ...item.outputs };
  const name = Object.keys(slots).find((slot) => [slots[slot]].flat().includes(value));
  const line = (item.lines || {})[isGradient(ref) ? `d${name}` : name];
  return line === undefined ? [] : [line];
}

function listing({ title, phase, first, lines, file }, classFile, marked) {
  const indent = Math.min(...lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
  const rows = lines.map((line, i) => row(first + i, line.slice(indent), marked.includes(first + i)));
  return h(
    "figure",
    { class: `source is-${phase}` },
    h("figcaption", {}, title, h("span", { class: "note" }, ` ${file || classFile || ""}`)),
    h("pre", { tabindex: "0", role: "group", "aria-label": title }, h("code", {}, rows)),
  );
}

function row(number, text, marked) {
  return h(
    "span",
    { class: marked ? "line marked" : "line", "data-line": number, "aria-current": marked ? "true" : null },
    h("span", { class: "line-number", "aria-hidden": "true" }, number),
    h("span", { class: "line-code" }, `${text || " "}\n`),
  );
}

// The single lines of the class around it that call this component.
function calls(around, className, called) {
  const lineAt = (number) =>
    partsOf(around, className)
      .map(({ first, lines }) => lines[number - first])
      .find((line) => line !== undefined);
  const rows = ["forward", "backward"].filter((phase) => called[phase] && lineAt(called[phase]));
  return rows.map((phase) =>
    h(
      "figure",
      { class: `source is-${phase}` },
      h("figcaption", {}, t("source.called", { line: called[phase], class: `${className}.${phase}` })),
      h(
        "pre",
        { tabindex: "0", role: "group", "aria-label": t("source.called", { line: called[phase], class: className }) },
        h("code", {}, row(called[phase], lineAt(called[phase]).trim(), false)),
      ),
    ),
  );
}

// The source of a component's forward and backward, with the line that made the chosen array highlighted.

import { h } from "explorer/dom";
import { t } from "explorer/strings";

// `marked`: {forward: line number or null, backward: ...}
export function sourceOf(description, marked) {
  const parts = [["forward", description.forward], ["backward", description.backward_source]].filter(([, part]) => part && part.lines);
  if (!parts.length) return h("p", { class: "note" }, t("source.none"));
  return h("div", { class: "sources" }, parts.map(([phase, part]) => listing(phase, part, description.file, marked[phase])));
}

function listing(phase, { first, lines }, file, markedLine) {
  const indent = Math.min(...lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
  const rows = lines.map((line, i) => {
    const here = first + i === markedLine;
    return h("span", { class: here ? "line marked" : "line", "aria-current": here ? "true" : null },
      h("span", { class: "line-number", "aria-hidden": "true" }, first + i), h("span", { class: "line-code" }, `${line.slice(indent) || " "}\n`));
  });
  return h("figure", { class: `source is-${phase}` }, h("figcaption", {}, t(`source.${phase}`), h("span", { class: "note" }, ` ${file || ""}`)),
    h("pre", { tabindex: "0", "aria-label": t(`source.${phase}`) }, h("code", {}, rows)));
}

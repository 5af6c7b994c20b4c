// What the marks of the page mean: colors, the dot of an exact zero, the hatching of a mask, and the boxes and lines of the map.

import { h, s } from "explorer/dom";
import { cssColor } from "explorer/colors";
import { t } from "explorer/strings";

const SIZE = 18;

export function legendOfMarks(open) {
  const ramp = (kind) => [-1, -0.5, 0, 0.5, 1].map((x, i) => s("rect", { x: i * SIZE, width: SIZE, height: SIZE, fill: cssColor(kind, x, 1) }));
  const cell = (...marks) => [s("rect", { class: "cell", width: SIZE, height: SIZE }), ...marks];
  const middle = SIZE / 2;
  const rows = [
    ["value", ramp("value")], ["gradient", ramp("gradient")],
    ["zero", cell(s("circle", { cx: middle, cy: middle, r: 2 }))],
    ["masked", cell(s("path", { d: "M0 6 6 0M0 12 12 0M0 18 18 0M6 18 18 6M12 18 18 12" }))],
    ["noise", cell(s("text", { x: middle, y: middle, "text-anchor": "middle", "dominant-baseline": "central" }, "≈0"))],
    ["computed", [s("rect", { class: "forward", x: 0.5, y: 2.5, width: 21, height: 13, rx: 3 }), s("rect", { class: "backward", x: 27.5, y: 2.5, width: 21, height: 13, rx: 3 })]],
    ["width", [s("path", { class: "wedge", d: "M0 15H48V5Z" })]],
    ["parameter", [s("rect", { class: "plain", x: 1, y: 5, width: 8, height: 8 }), s("rect", { class: "full", x: 15, y: 5, width: 8, height: 8 })]],
    ["nan", cell(s("path", { class: "nan", d: `M0 0 ${SIZE} ${SIZE}M${SIZE} 0 0 ${SIZE}` }))],
  ];
  return h("details", { class: "marks-legend", open, id: "marks-legend" }, h("summary", {}, t("marks.title")),
    h("dl", {}, rows.map(([key, marks]) => {
      const width = marks.length > 2 ? 5 * SIZE : key === "computed" || key === "width" ? 50 : key === "parameter" ? 24 : SIZE;
      return [h("dt", {}, s("svg", { width, height: SIZE, viewBox: `0 0 ${width} ${SIZE}`, "aria-hidden": "true" }, marks)), h("dd", {}, t(`marks.${key}`))];
    })), h("p", { class: "note" }, t("marks.dropout")));
}

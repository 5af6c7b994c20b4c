// What the marks in heatmaps mean: the colors, the dot of an exact zero, the hatching of a mask, and the rest.

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
    ["nan", cell(s("path", { class: "nan", d: `M0 0 ${SIZE} ${SIZE}M${SIZE} 0 0 ${SIZE}` }))],
  ];
  return h("details", { class: "marks-legend", open, id: "marks-legend" }, h("summary", {}, t("marks.title")),
    h("dl", {}, rows.map(([key, marks]) => {
      const width = marks.length > 2 ? 5 * SIZE : SIZE;
      return [h("dt", {}, s("svg", { width, height: SIZE, viewBox: `0 0 ${width} ${SIZE}`, "aria-hidden": "true" }, marks)), h("dd", {}, t(`marks.${key}`))];
    })));
}

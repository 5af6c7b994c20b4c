// The color scale of a picture in one line: its name, and the scale from -limit (or from 0) to limit.

import { h, s } from "explorer/dom";
import { formatNumber } from "explorer/format";
import { cssColor } from "explorer/colors";

const STEPS = 21;

export function scaleLegend(title, kind, limit, lowest = -limit) {
  const boxes = Array.from({ length: STEPS }, (_, i) => s("rect", { x: i * 4, y: 0, width: 4.2, height: 10,
    fill: cssColor(kind, lowest + (limit - lowest) * i / (STEPS - 1), limit) }));
  const bar = s("svg", { width: STEPS * 4, height: 10, viewBox: `0 0 ${STEPS * 4} 10`, "aria-hidden": "true" }, ...boxes);
  return h("span", { class: "scale-legend" }, h("span", {}, title), h("span", { class: "number" }, formatNumber(lowest)), bar,
    h("span", { class: "number" }, formatNumber(limit)));
}

// The scale of a heatmap: from its smallest to its largest number, with 0 marked; and how many entries are exactly 0.

import { h, s } from "explorer/dom";
import { cssColor } from "explorer/colors";
import { formatCount, formatNumber } from "explorer/format";
import { t } from "explorer/strings";

const WIDTH = 96;
const HEIGHT = 8;
const STEPS = 32;

export function colorBar(info, kind) {
  if (kind === "mask") return h("span", { class: "color-bar note" }, t("bar.mask"));
  if (info.dtype === "int32") return h("span", { class: "color-bar" });
  const { min, max } = info;
  if (min === null || min === undefined || max === null) return h("span", { class: "color-bar" });
  const low = Math.min(min, 0);
  const high = Math.max(max, 0);
  const limit = Math.max(-low, high);
  if (limit === 0) return h("span", { class: "color-bar note" }, t(info.zeros ? "bar.all_zero" : "bar.none_finite"));
  return h(
    "span",
    { class: "color-bar", "data-kind": kind },
    h("span", { class: "number" }, formatNumber(low, 2)),
    barOf(kind, low, high, limit),
    h("span", { class: "number" }, formatNumber(high, 2)),
    h("span", { class: "number norm", title: t("bar.norm.title") }, t("bar.norm", { norm: formatNumber(info.norm ?? NaN) })),
  );
}

export function zeroCount(info, kind) {
  const all = info.shape.reduce((product, length) => product * length, 1) === info.zeros;
  if (!info.zeros || all || kind === "mask" || info.dtype === "int32") return null;
  return h("span", { class: "zeros note" }, t("bar.zeros", { n: info.zeros, count: formatCount(info.zeros) }));
}

function barOf(kind, low, high, limit) {
  const x = (number) => (WIDTH * (number - low)) / (high - low);
  const parts = Array.from({ length: STEPS }, (_, i) => {
    const middle = low + ((high - low) * (i + 0.5)) / STEPS;
    return s("rect", {
      x: (WIDTH * i) / STEPS,
      y: 3,
      width: WIDTH / STEPS + 0.5,
      height: HEIGHT,
      fill: cssColor(kind, middle, limit),
    });
  });
  const zero = s("line", { x1: x(0), x2: x(0), y1: 0, y2: HEIGHT + 6, class: "zero-line" });
  return s(
    "svg",
    {
      width: WIDTH,
      height: HEIGHT + 6,
      viewBox: `0 0 ${WIDTH} ${HEIGHT + 6}`,
      role: "img",
      "aria-label": t("bar.label", { low: formatNumber(low), high: formatNumber(high) }),
    },
    parts,
    zero,
  );
}

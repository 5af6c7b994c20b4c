// The relative error of the difference quotient over its step h, both on logarithmic axes: a U. On the right the step is
// so large that the loss is not a straight line (truncation), on the left so small that L(x + h) and L(x − h) share
// almost all their digits (rounding).

import { s } from "explorer/dom";
import { t } from "explorer/strings";

const WIDTH = 300;
const HEIGHT = 168;
const LEFT = 40;
const RIGHT = 10;
const TOP = 12;
const BOTTOM = 34;
const FLOOR = 1e-16;

// points: [{h, error}]
export function curveOf(points) {
  const sorted = [...points].sort((a, b) => a.h - b.h);
  const range = { low: Math.log10(sorted[0].h), high: Math.log10(sorted[sorted.length - 1].h) };
  const exponents = sorted.map(({ error }) => Math.log10(Math.max(error, FLOOR)));
  const floor = Math.min(-2, Math.floor(Math.min(...exponents)));
  const x = (exponent) => LEFT + ((WIDTH - LEFT - RIGHT) * (exponent - range.low)) / (range.high - range.low);
  const y = (exponent) => TOP + ((HEIGHT - TOP - BOTTOM) * Math.min(exponent, 0)) / floor;
  const places = sorted.map(({ h }, i) => [x(Math.log10(h)), y(exponents[i])]);
  const best = exponents.indexOf(Math.min(...exponents));

  return s(
    "svg",
    {
      class: "proof-curve",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": t("proof.curve.label", { h: power(Math.log10(sorted[best].h)), error: power(exponents[best]) }),
    },
    axes(x, y, range, floor),
    s("polyline", { class: "curve-line", points: places.map((place) => place.join(",")).join(" "), fill: "none" }),
    places.map(([left, top], i) =>
      s(
        "circle",
        { class: i === best ? "curve-point best" : "curve-point", cx: left, cy: top, r: i === best ? 4 : 2.5 },
        s("title", {}, `h = ${sorted[i].h}: ${sorted[i].error.toExponential(1)}`),
      ),
    ),
    s("text", { x: LEFT + 6, y: TOP + 8, class: "curve-note" }, t("proof.curve.rounding")),
    s("text", { x: WIDTH - RIGHT, y: TOP + 8, class: "curve-note", "text-anchor": "end" }, t("proof.curve.truncation")),
  );
}

function axes(x, y, range, floor) {
  const across = every(range.low, range.high, 3);
  const up = every(floor, 0, 4);
  const bottom = HEIGHT - BOTTOM;
  return s(
    "g",
    { class: "curve-axes" },
    s("path", { d: `M${LEFT},${TOP} V${bottom} H${WIDTH - RIGHT}`, fill: "none" }),
    across.map((exponent) => label(x(exponent), bottom + 14, "middle", power(exponent))),
    up.map((exponent) => label(LEFT - 5, y(exponent) + 4, "end", power(exponent))),
    label((LEFT + WIDTH) / 2, HEIGHT - 4, "middle", t("proof.curve.x")),
  );
}

function label(x, y, anchor, text) {
  return s("text", { x, y, "text-anchor": anchor }, text);
}

function every(low, high, step) {
  const first = Math.ceil(low / step - 1e-9) * step;
  return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, i) => first + i * step);
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

function power(exponent) {
  const rounded = Math.round(exponent);
  return rounded === 0 ? "1" : `10${[...String(rounded)].map((character) => RAISED[character]).join("")}`;
}

// Numbers as texts: three or four significant digits on the page, all digits in titles and for screen readers.

import { t } from "explorer/strings";

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function formatNumber(x, digits = 3) {
  const special = notFinite(x);
  if (special !== null) {
    return special;
  }
  if (Number.isInteger(x) && Math.abs(x) < 1e6) {
    return minus(String(x));
  }
  const size = Math.abs(x);
  if (size < 1e-3 || size >= 1e6) {
    const [digitsPart, exponent] = x.toExponential(digits - 1).split("e");
    return minus(`${digitsPart}·10`) + superscript(Number(exponent));
  }
  const decimals = Math.max(0, Math.min(4, digits - 1 - Math.floor(Math.log10(size))));
  return minus(x.toFixed(decimals));
}

export function fullNumber(x) {
  return notFinite(x) ?? minus(String(Number(x.toPrecision(9))));
}

// A constant such as 0.00001 in full; one with many digits shortened.
export function shortestNumber(x) {
  const full = fullNumber(x);
  return full.length <= 8 ? full : formatNumber(x);
}

// A number in a cell, with as many decimals as the largest of its array needs: .25.
export function shortNumber(x, largest) {
  if (!Number.isFinite(x)) {
    return notFinite(x);
  }
  const decimals = Math.max(0, Math.min(4, 1 - Math.floor(Math.log10(largest)) + (largest >= 1 ? 1 : 0)));
  const text = x.toFixed(decimals).replace(/^(-?)0\./, "$1.");
  return Number(text) === 0 ? text.replace("-", "") : minus(text);
}

// A count with its thousands apart: 1,234.
export function formatCount(n) {
  return n.toLocaleString("en-US");
}

export function formatShape(shape) {
  return shape.length === 0 ? t("pair.scalar") : shape.join(" × ");
}

function notFinite(x) {
  if (typeof x === "boolean") {
    return String(x);
  }
  if (x === null || x === undefined || Number.isNaN(x)) {
    return "nan";
  }
  if (x === Infinity) {
    return "∞";
  }
  return x === -Infinity ? "−∞" : null;
}

function minus(text) {
  return text.replace(/^-/, "−");
}

function superscript(n) {
  return [...String(n)].map((character) => SUPERSCRIPT[character]).join("");
}

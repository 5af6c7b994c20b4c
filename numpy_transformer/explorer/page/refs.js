// A ref names an array of the document ("grad block:y via norm1 x"). This file takes refs apart and puts them
// together, and gives entries their names: other files never cut strings.

import { lookup } from "explorer/lookup";
import { axisName, t } from "explorer/strings";

const GRADIENT = "grad ";
const VIA = " via ";

// {kind: "value" | "gradient" | "contribution" | "numeric" | "curve" | "other", value, op, slot}
export function parseRef(ref) {
  if (ref.startsWith("numeric ")) return { kind: "numeric", value: ref.slice("numeric ".length) };
  if (ref.startsWith("curve ")) return { kind: "curve", value: ref.slice("curve ".length) };
  if (ref === "losses" || /^lens \d+$/.test(ref)) return { kind: "other", value: null };
  if (!ref.startsWith(GRADIENT)) return { kind: "value", value: ref };

  const rest = ref.slice(GRADIENT.length);
  const via = rest.indexOf(VIA);
  if (via < 0) return { kind: "gradient", value: rest };
  const place = rest.slice(via + VIA.length);
  const space = place.lastIndexOf(" ");
  return { kind: "contribution", value: rest.slice(0, via), op: place.slice(0, space), slot: place.slice(space + 1) };
}

export function gradientRef(value) {
  return GRADIENT + value;
}

export function contributionRef(value, op, slot) {
  return `${GRADIENT}${value}${VIA}${op} ${slot}`;
}

// Gradients have the other of the two color families.
export function isGradient(ref) {
  const { kind } = parseRef(ref);
  return kind === "gradient" || kind === "contribution" || kind === "numeric";
}

export function valueOf(doc, ref) {
  const id = parseRef(ref).value;
  return id ? lookup(doc).value(id) : null;
}

// The op's own name of a value: x for an input, weight for a parameter, y for an output.
export function slotName(op, valueId) {
  for (const slots of [op.outputs, op.inputs, op.parameters]) {
    const found = Object.entries(slots || {}).find(([, id]) => id === valueId);
    if (found) return found[0];
  }
  return null;
}

// The short name of an array, as its producer calls it: "y" and "dy", "weight" and "dweight", "ids".
export function shortName(doc, ref) {
  const { kind, value: id, slot } = parseRef(ref);
  if (kind === "other") return ref;
  if (kind === "contribution") return "d" + slot; // a part of a gradient has the name that the op which sends it back gives it
  const colon = id.lastIndexOf(":");
  const dot = id.lastIndexOf(".");
  const name = colon >= 0 ? id.slice(colon + 1) : id.slice(dot + 1);
  return kind === "value" ? name : "d" + name;
}

// The tokens of one axis as a list of strings, or null. Source and target have one list for each sequence of the
// batch; vocabulary and classes have one for all.
const LISTS = { vocabulary: "vocabulary", class: "classes" };       // axes whose name says what their entries are

export function tokensOfAxis(doc, axis, batch = 0) {
  const name = axis ? axis.tokens || LISTS[axis.name] : null;
  const list = name ? (doc.tokens || {})[name] : null;
  if (!list || !list.length) return null;
  return Array.isArray(list[0]) ? list[Math.min(batch, list.length - 1)] : list;
}

export function axesOf(doc, ref, shape) {
  const value = valueOf(doc, ref);
  const axes = (value && value.axes) || [];
  return shape.map((size, i) => axes[i - (shape.length - axes.length)] || axes[i] || { name: `axis ${i}` });
}

// The batch row that an index lies in: the entry of the axis named "batch", 0 if there is none.
export function batchOf(axes, index) {
  const i = axes.findIndex((axis) => axis.name === "batch");
  return i >= 0 && index[i] !== undefined ? index[i] : 0;
}

// One entry of an axis in words: 'token 2 "sat"', "feature 5".
export function placeText(doc, axis, i, batch = 0) {
  const tokens = tokensOfAxis(doc, axis, batch);
  const uncounted = tokens && tokens[i] === "" && axis.tokens === "targets" ? ` ${t("refs.not_counted")}` : "";
  const token = tokens && tokens[i] ? ` “${tokens[i]}”` : uncounted;
  return `${t("axis.entry", { name: axisName(axis), i })}${token}`;
}

// A whole index in words. A batch of one sequence goes without saying.
export function indexText(doc, ref, shape, index) {
  const axes = axesOf(doc, ref, shape);
  const batch = batchOf(axes, index);
  const said = axes.map((axis, i) => (axis.name === "batch" && shape[i] === 1 ? "" : placeText(doc, axis, index[i], batch)));
  return said.filter(Boolean).join(", ");
}

// Reads the arrays of one attention layer for one text of the batch, and says in sentences what a token collects and
// which gradient it sends back.

import { exists } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { t } from "explorer/strings";

export const WINDOW = 48;                     // most queries and most keys that are shown at once
const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉";
const LISTED = 4;                             // tokens that a sentence lists
export const ARRAYS = ["weights", "dweights", "dscores"];

/** The refs of the arrays that belong to one entry of doc.attention. */
export function refsOf(entry) {
  return { weights: entry.weights, dweights: `grad ${entry.weights}`, dscores: `grad ${entry.scores}`,
    scores: entry.scores };
}

/** Which layer and which array of it a ref belongs to, or null. */
export function findRef(doc, ref) {
  for (const [layer, entry] of (doc.attention || []).entries()) {
    const refs = refsOf(entry);
    const name = Object.keys(refs).find((key) => refs[key] === ref);
    if (name) return { layer, name };
  }
  return null;
}

/** Loads one layer: sizes, labels and number(name, head, i, j) with i and j counted from the window's start [query, key]. */
export async function loadLayer(app, entry, batch, start) {
  const { doc } = app.state.get();
  const refs = refsOf(entry);
  const [, heads, allQueries, allKeys] = app.store.info(entry.weights).shape;
  const rows = [start[0], Math.min(allQueries, start[0] + WINDOW)];
  const columns = [start[1], Math.min(allKeys, start[1] + WINDOW)];
  const index = [batch, [0, heads], rows, columns];
  const parts = {};
  for (const name of ARRAYS) {
    parts[name] = app.store.info(refs[name]) && exists(app.state.get(), refs[name]) ? await app.store.slice(refs[name], index) : null;
  }
  const width = columns[1] - columns[0];
  const height = rows[1] - rows[0];
  const number = (name, head, i, j) => (parts[name] ? parts[name].data[(head * height + i) * width + j] : NaN);
  const mask = await loadMask(app, entry.mask);
  return {
    entry, refs, batch, heads, number, has: (name) => Boolean(parts[name]),
    start: [rows[0], columns[0]], total: [allQueries, allKeys],
    queries: labelsOf(doc, entry.query, batch, rows), keys: labelsOf(doc, entry.key, batch, columns),
    masked: (head, i, j) => !mask([batch, head, i + rows[0], j + columns[0]]),
    limit: (name) => largest(parts[name]),
    cell: (head, i, j) => [batch, head, i + rows[0], j + columns[0]],
  };
}

function labelsOf(doc, axis, batch, [first, last]) {
  const tokens = ((doc.tokens || {})[axis] || [])[batch] || [];
  return Array.from({ length: last - first }, (_, i) => String(tokens[first + i] ?? first + i));
}

function largest(part) {
  let most = 0;
  if (part) part.data.forEach((x) => { if (Number.isFinite(x)) most = Math.max(most, Math.abs(x)); });
  return most || 1;
}

/** A function index -> may attend, of a mask that broadcasts to (batch, head, query, key). */
async function loadMask(app, ref) {
  if (!ref || !app.store.info(ref)) return () => true;
  const { shape, data } = await app.store.array(ref);
  return (index) => {
    let place = 0;
    shape.forEach((size, axis) => {
      const at = index[index.length - shape.length + axis];
      place = place * size + (size === 1 ? 0 : at);
    });
    return Boolean(data[place]);
  };
}

/** A token's name in a sentence: repeated tokens get their position as an index. */
function tokenName(labels, i, start) {
  const twice = labels.indexOf(labels[i]) !== labels.lastIndexOf(labels[i]);
  return twice ? labels[i] + [...String(i + start)].map((digit) => SUBSCRIPT[digit]).join("") : labels[i];
}

/** "cat attends to the 0.61, cat 0.39.", and the gradients of these scores (or of the weights, if they are shown), for one head. */
export function headSentences(layer, side, at, head, shown = "weights") {
  const visible = pairsOf(layer, side, at, head).filter(({ hidden }) => !hidden);
  const own = side === "query" ? tokenName(layer.queries, at, layer.start[0]) : tokenName(layer.keys, at, layer.start[1]);
  const forward = t(`attention.${side}.forward`, { token: own, list: listed(visible, "weights", (x) => x.toFixed(2)) });
  const isWhole = layer.total[1] === layer.keys.length;
  const sentences = [forward];
  if (side === "query" && layer.entry.sink && isWhole) {
    const given = visible.reduce((sum, { weights }) => sum + weights, 0);
    sentences.push(t("attention.sink", { weight: (1 - given).toFixed(2) }));
  }
  const name = shown === "dweights" ? "dweights" : "dscores";
  if (!layer.has(name) || !visible.length) return sentences;
  return [...sentences, t(`attention.backward.${name}`, { list: listed(visible, name, withSign) })];
}

/** What the mask hides, and what that means for the gradients; said once, for one head's mask. */
export function maskSentences(layer, side, at, head) {
  const pairs = pairsOf(layer, side, at, head);
  const visible = pairs.filter(({ hidden }) => !hidden);
  const all = [];
  if (visible.length < pairs.length) {
    const names = pairs.filter(({ hidden }) => hidden).map(({ label }) => label);
    const more = names.length > 8 ? [t("attention.more", { n: names.length - 8 })] : [];
    all.push(t(`attention.${side}.masked`, { list: [...names.slice(0, 8), ...more].join(", ") }));
  }
  const axis = side === "query" ? 1 : 0;
  if (layer.total[axis] > pairs.length) {                // what follows would hold for whole rows only
    const first = layer.start[axis];
    all.push(t(`attention.${side}.window`, { first, last: first + pairs.length - 1 }));
  } else if (side === "query" && layer.has("dscores") && layer.entry.sink) {
    if (visible.length) all.push(t("attention.sink_row"));
  } else if (side === "query" && layer.has("dscores")) {
    if (visible.length === 1) all.push(t("attention.single", { key: visible[0].label }));
    else if (visible.length) all.push(t("attention.row_sum"));
  }
  return all;
}

function pairsOf(layer, side, at, head) {
  const others = side === "query" ? layer.keys : layer.queries;
  return others.map((_, other) => {
    const [i, j] = side === "query" ? [at, other] : [other, at];
    const label = tokenName(others, other, layer.start[side === "query" ? 1 : 0]);
    const numbers = Object.fromEntries(ARRAYS.map((name) => [name, layer.number(name, head, i, j)]));
    return { label, hidden: layer.masked(head, i, j), ...numbers };
  });
}

function listed(pairs, name, text) {
  const sorted = [...pairs].sort((a, b) => Math.abs(b[name]) - Math.abs(a[name]));
  const shown = sorted.slice(0, LISTED).map((pair) => `${pair.label} ${text(pair[name])}`);
  if (sorted.length > LISTED) shown.push(t("attention.more", { n: sorted.length - LISTED }));
  return shown.join(", ") || t("attention.nothing");
}

export function withSign(x) {
  return x > 0 ? `+${formatNumber(x)}` : formatNumber(x);
}

/** One cell in a sentence: its two tokens, its value, or that it is masked. */
export function cellSentence(layer, name, head, i, j) {
  const query = tokenName(layer.queries, i, layer.start[0]);
  const key = tokenName(layer.keys, j, layer.start[1]);
  if (layer.masked(head, i, j)) return t("attention.cell.masked", { head, query, key });
  const number = layer.number(name, head, i, j);
  const text = name === "weights" ? formatNumber(number) : withSign(number);
  return t(`attention.cell.${name}`, { head, query, key, number: text });
}

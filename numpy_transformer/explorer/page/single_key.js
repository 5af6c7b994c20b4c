// Why the gradient of a query, or of its scores, is exactly 0 where the mask leaves the query a single key: the general
// sentence that the cell of such a 0 needs.

import { derivationOf } from "explorer/derivation";
import { lookup } from "explorer/lookup";
import { axesOf, batchOf, isGradient, tokensOfAxis } from "explorer/refs";

const MOST_STEPS = 4; // from a projection over the split into heads, perhaps a norm and a rotation, to the scores

// The name of the only key that the cell's query sees, or null if that is not why the number is 0.
export async function singleKey(app, ref, index, number) {
  if (number !== 0 || !isGradient(ref)) return null;
  const { doc } = app.state.get();
  const layer = layerOf(doc, ref);
  if (!layer || !app.store.info(layer.scores)) return null;
  const place = placeOfQuery(doc, ref, app.store.info(ref).shape, index);
  if (place.query === undefined) return null;

  const { shape } = app.store.info(layer.scores);
  const heads = place.head === undefined ? [0, shape[1]] : place.head;
  const { data } = await app.store.slice(layer.scores, [place.batch, heads, place.query, [0, shape[3]]]);
  const columns = Array.from(data).flatMap((score, i) => (score === -Infinity ? [] : [i % shape[3]]));
  const rows = data.length / shape[3];
  const key = columns[0];
  if (shape[3] < 2 || columns.length !== rows || columns.some((column) => column !== key)) return null;
  const tokens = tokensOfAxis(doc, axesOf(doc, layer.scores, shape)[3], place.batch);
  return tokens && tokens[key] ? `“${tokens[key]}”` : String(key);
}

// The attention whose scores this array belongs to: those scores themselves, or the queries that they were computed from.
function layerOf(doc, ref) {
  const look = lookup(doc);
  let { op, target } = derivationOf(doc, ref);
  for (let step = 0; op && step < MOST_STEPS; step += 1) {
    const outputs = Object.values(op.outputs).flat();
    const own = (doc.attention || []).find(({ weights, scores }) =>
      (op.kind === "scores" ? target === "dq" && outputs.includes(scores) : outputs.includes(weights)));
    if (own) return own;
    if (op.kind !== "reshape" && !/Rotary|Norm/.test(op.class || "")) return null;
    const { consumers } = look.value(outputs[0]);
    if (consumers.length !== 1) return null;
    op = look.op(consumers[0].op);
    target = `d${consumers[0].slot}`;
  }
  return null;
}

// Batch, head and query of a cell, whatever the axes of its array are called.
function placeOfQuery(doc, ref, shape, index) {
  const axes = axesOf(doc, ref, shape);
  const entry = (...names) => index[axes.findIndex(({ name }) => names.includes(name))];
  return { batch: batchOf(axes, index), head: entry("head"), query: entry("query", "token", "position") };
}

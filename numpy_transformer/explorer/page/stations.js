// The first story: one training step in eight places. A place that a model does not have is left out.

import { existsFrom } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";
import { attentionOf, largestEntry, numberAt, opOfClass, targetsIn, tokensOf } from "explorer/places";
import { describe } from "explorer/predictions_data";
import { gradientRef } from "explorer/refs";
import { t } from "explorer/strings";

// The parts of this story, as stories.js describes them; some look into arrays, so this is a promise.
export async function stationsOf(app) {
  const { base: doc } = app.state.get();
  const target = doc.predictions ? await worstTarget(app, doc) : null;
  const found = [];
  for (const find of [road, loss, firstGradient, addition, softmaxBackward, heads, scatterAdd, optimizer]) {
    const station = await find(app, doc, target);
    if (station) {
      found.push(station);
    }
  }
  return found;
}

// One token's road forward: the first embedding, at the second token that the step reads.
function road(app, doc) {
  const op = opOfClass(doc, "Embedding");
  const value = op && lookup(doc).value(op.outputs.y);
  if (!value || value.shape.length !== 3) {
    return null;
  }
  const at = Math.min(1, value.shape[1] - 1);
  return { key: "road", numbers: { token: tokensOf(doc, value)[at] ?? at, n: value.shape[2] },
    place: { view: "component", op: op.id, ref: value.id, index: [0, at, 0] } };
}

// The target with the largest loss.
async function worstTarget(app, doc) {
  const targets = await targetsIn(app, doc);
  return targets.length ? targets.reduce((best, one) => (one.loss > best.loss ? one : best)) : null;
}

function loss(app, doc, target) {
  if (!target) {
    return null;
  }
  const count = (doc.tokens?.targets ?? []).flat().filter(Boolean).length;
  const mean = count > 1 ? ` ${t("story.step.loss.mean", { n: count, loss: formatNumber(doc.loss, 4) })}` : "";
  return { key: "loss", numbers: { target: target.label, loss: formatNumber(target.loss), what: whatOf(doc), mean },
    place: { view: "predictions", ref: doc.predictions.logits, index: target.index, at: existsFrom(doc, "losses") } };
}

function whatOf(doc) {
  return t(`story.step.what.${doc.predictions.kind}`);
}

async function firstGradient(app, doc, target) {
  const ref = target && gradientRef(doc.predictions.logits);
  if (!target || !app.store.info(ref, doc) || describe(app).binary) {
    return null;                      // a single logit has no y of its own
  }
  const op = doc.steps.find(({ phase }) => phase === "backward")?.op ?? null;
  return { key: "gradient", numbers: { target: target.label, gradient: formatNumber(await numberAt(app, ref, target.index, doc)), what: whatOf(doc) },
    place: { view: "component", op, ref, index: target.index } };
}

// The last residual "+", which backward meets first.
async function addition(app, doc) {
  const op = doc.ops.findLast(({ kind, parent }) => kind === "add" && parent);
  const ref = op && gradientRef(op.outputs.y);
  return ref && app.store.info(ref, doc) ? { key: "addition", numbers: {}, place: { view: "component", op: op.id, ref, index: await largestEntry(app, ref) } } : null;
}

// The gradient of the scores of the first attention, at the largest entry where a token looks at another one: the page opens here.
export async function softmaxBackward(app, doc) {
  const entry = (doc.attention ?? [])[0];
  const op = entry ? doc.ops.find(({ outputs }) => Object.values(outputs).includes(entry.weights)) : opOfClass(doc, "Softmax");
  const ref = op && op.inputs.x && gradientRef(op.inputs.x);
  if (!ref || !app.store.info(ref, doc)) {
    return null;
  }
  const size = app.store.info(ref, doc).shape.at(-1);
  const index = await largestEntry(app, ref, (flat) => flat % size !== Math.floor(flat / size) % size);
  return { key: "softmax", numbers: {}, place: { view: "component", op: op.id, ref, index } };
}

async function heads(app, doc) {
  const entry = (doc.attention ?? []).find(({ weights }) => app.store.info(weights, doc)?.shape[1] > 1);
  if (!entry) {
    return null;
  }
  const { heads: n, queries, softmax } = await attentionOf(app, entry);
  return { key: "heads", numbers: { n }, place: { view: "attention", op: softmax.id, ref: entry.weights, index: [0, 1, queries - 1, 0], at: existsFrom(doc, gradientRef(entry.scores)) } };
}

// The gradient of an embedding, at the row of a token that occurs twice if there is one.
async function scatterAdd(app, doc) {
  const op = opOfClass(doc, "Embedding");
  const ref = op && gradientRef(op.parameters.weight);
  if (!op || !op.inputs.ids || !app.store.info(ref, doc) || !app.store.info(op.inputs.ids, doc)) {
    return null;
  }
  const ids = Array.from((await app.store.array(op.inputs.ids, doc)).data, Number);
  const twice = ids.find((id, i) => ids.indexOf(id) !== i);
  const id = twice ?? ids[0];
  const tokens = tokensOf(doc, lookup(doc).value(op.outputs.y));
  const width = app.store.info(ref, doc).shape[1];
  const index = await largestEntry(app, ref, (flat) => Math.floor(flat / width) === id);
  return { key: "scatter", numbers: { token: tokens[ids.indexOf(id)] ?? id, n: ids.filter((other) => other === id).length },
    place: { view: "component", op: op.id, ref, index: [id, index[1]] } };
}

function optimizer(app, doc) {
  const found = app.store.comparisons().find(({ name }) => name === "step");
  const at = doc.steps.findIndex(({ phase }) => phase === "optimizer");
  if (found && app.store.can(found.edits)) {
    return { key: "optimizer", numbers: { lr: found.edits[0].lr }, place: { view: "ranking", at } };
  }
  return { key: "optimizer_saved", numbers: { command: doc.command }, place: at < 0 ? {} : { view: "ranking", at } };
}

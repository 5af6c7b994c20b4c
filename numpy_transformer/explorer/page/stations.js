// The stations of the tour. Each one finds its place in the document by classes and kinds, never by names, and is left
// out where a model has nothing of the kind. A station is {key, numbers, place} with `place` a change of the state.

import { lookup } from "explorer/lookup";
import { formatNumber } from "explorer/format";
import { t } from "explorer/strings";
import { describe, targetsOf } from "explorer/predictions_data";

/** The stations that this document has; some look into arrays, so this is a promise. */
export async function stationsOf(app) {
  const finders = [road, loss, firstGradient, addition, softmaxBackward, heads, scatterAdd, optimizer];
  const found = [];
  for (const find of finders) {
    const station = await find(app, app.state.get().doc);
    if (station) found.push(station);
  }
  return found;
}

function opOfClass(doc, ...classes) {
  return doc.ops.find((op) => classes.includes(op.class));
}

function valueOf(doc, id) {
  return lookup(doc).value(id);
}

/** One token's road forward: the first embedding, at the last token that the step reads. */
function road(app, doc) {
  const op = opOfClass(doc, "Embedding");
  const value = op && valueOf(doc, op.outputs.y);
  if (!value || value.shape.length !== 3) return null;
  const tokens = tokensOf(doc, value);
  const at = Math.min(1, value.shape[1] - 1);
  return { key: "road", numbers: { token: tokens[at] ?? at, n: value.shape[2] },
    place: { view: "component", at: 0, op: op.id, ref: value.id, index: [0, at, 0] } };
}

function tokensOf(doc, value) {
  const axis = value.axes.find(({ tokens }) => tokens);
  return axis ? ((doc.tokens ?? {})[axis.tokens] ?? [])[0] ?? [] : [];
}

/** The place of the target with the largest loss: {index of its logit, label, loss, and what it is}; null if there is no target. */
async function targetOf(app, doc) {
  if (!doc.predictions) return null;
  const about = describe(app);
  const counted = (await targetsOf(app, about, 0)).filter(({ target }) => target !== null);
  if (!counted.length) return null;
  const { target, loss: most, position } = counted.reduce((best, one) => (one.loss > best.loss ? one : best));
  return { index: about.index(0, position, target), label: about.label(target), loss: most, what: t(`tour.what.${about.kind}`) };
}

async function loss(app, doc) {
  const target = await targetOf(app, doc);
  return target && { key: "loss",
    numbers: { target: target.label, loss: formatNumber(target.loss), what: target.what, mean: await meanOf(app, doc) },
    place: { view: "predictions", ref: doc.predictions.logits, index: target.index } };
}

/** Says that the loss is the mean over all targets, where it is: class weights would make it another number. */
async function meanOf(app, doc) {
  const about = describe(app);
  const losses = [];
  for (let batch = 0; batch < about.texts; batch += 1) {
    const counted = (await targetsOf(app, about, batch)).filter(({ target }) => target !== null);
    losses.push(...counted.map((one) => one.loss));
  }
  const mean = losses.reduce((sum, one) => sum + one, 0) / losses.length;
  if (!(Math.abs(mean - doc.loss) < 1e-5 * Math.abs(doc.loss))) return "";
  return losses.length > 1 ? ` ${t("tour.loss.mean", { n: losses.length, loss: formatNumber(doc.loss, 4) })}` : "";
}

async function firstGradient(app, doc) {
  const target = await targetOf(app, doc);
  const ref = target && `grad ${doc.predictions.logits}`;
  if (!target || !app.store.info(ref) || describe(app).binary) return null;       // a single logit has no y of its own
  const { data } = await app.store.slice(ref, target.index);
  return { key: "gradient", numbers: { target: target.label, gradient: formatNumber(data[0]), what: target.what },
    place: { view: "component", op: lastOp(doc), ref, index: target.index } };
}

function lastOp(doc) {
  return doc.steps.find(({ phase, op }) => phase === "backward" && op)?.op ?? null;
}

/** A residual "+": the last one, which backward meets first. */
async function addition(app, doc) {
  const additions = doc.ops.filter(({ kind, parent }) => kind === "add" && parent);
  const op = additions[additions.length - 1];
  const ref = op && `grad ${op.outputs.y}`;
  if (!op || !app.store.info(ref)) return null;
  return { key: "addition", numbers: {}, place: { view: "component", op: op.id, ref, index: await largestEntry(app, ref) } };
}

/** The index of the entry that is largest in size; the first entry of an array that the page does not hold. */
async function largestEntry(app, ref, wanted = () => true) {
  const { shape, data: held } = app.store.info(ref);
  const best = shape.map(() => 0);
  if (!held) return best;
  let size = -1;
  (await app.store.array(ref)).data.forEach((x, flat) => {
    if (!(Math.abs(x) > size) || !wanted(flat)) return;
    size = Math.abs(x);
    for (let axis = shape.length - 1, rest = flat; axis >= 0; axis -= 1) {
      best[axis] = rest % shape[axis];
      rest = Math.floor(rest / shape[axis]);
    }
  });
  return best;
}

function attentionSoftmax(doc) {
  const entry = (doc.attention ?? [])[0];
  return entry ? doc.ops.find(({ outputs }) => Object.values(outputs).includes(entry.weights)) : opOfClass(doc, "Softmax");
}

async function softmaxBackward(app, doc) {
  const op = attentionSoftmax(doc);
  const ref = op && op.inputs.x && `grad ${op.inputs.x}`;
  if (!ref || !app.store.info(ref)) return null;
  return { key: "softmax", numbers: {}, place: { view: "component", op: op.id, ref, index: await largestEntry(app, ref) } };
}

function heads(app, doc) {
  const entry = (doc.attention ?? []).find(({ weights }) => app.store.info(weights)?.shape[1] > 1);
  if (!entry) return null;
  const { shape } = app.store.info(entry.weights);
  return { key: "heads", numbers: { n: shape[1] },
    place: { view: "attention", ref: entry.weights, index: [0, 1, shape[2] - 1, 0] } };
}

/** The gradient of an embedding, at the row of a token that occurs twice if there is one. */
async function scatterAdd(app, doc) {
  const op = opOfClass(doc, "Embedding");
  const ref = op && `grad ${op.parameters.weight}`;
  if (!op || !op.inputs.ids || !app.store.info(ref) || !app.store.info(op.inputs.ids)) return null;
  const ids = Array.from((await app.store.array(op.inputs.ids)).data, Number);
  const twice = ids.find((id, i) => ids.indexOf(id) !== i);
  const id = twice ?? ids[0];
  const tokens = tokensOf(doc, valueOf(doc, op.outputs.y));
  const numbers = { token: tokens[ids.indexOf(id)] ?? id, n: ids.filter((other) => other === id).length };
  const width = app.store.info(ref).shape[1];
  const index = await largestEntry(app, ref, (flat) => Math.floor(flat / width) === id);
  return { key: "scatter", numbers, place: { view: "component", op: op.id, ref, index: [id, index[1]] } };
}

function optimizer(app, doc) {
  const at = doc.steps.findIndex(({ phase }) => phase === "optimizer");
  if (app.store.live && doc.hands_on) return { key: "optimizer", numbers: {}, step: true, place: { view: "hands-on" } };
  return { key: "optimizer_saved", numbers: { command: doc.command }, place: at < 0 ? {} : { view: "component", at } };
}

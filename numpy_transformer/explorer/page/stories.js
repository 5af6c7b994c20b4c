// The guided stories. Each is a list of parts, and each part says where to look: {key, numbers, place, edits, question}.
//   numbers   what its text names
//   place     a change of the state; `edits` of the model come first
//   question  {options: [text, ...], right: place of the right one}, which is answered before the story goes on
// Everything is found in the document, so that a story fits every model that has what it speaks of; otherwise it is null.

import { existsFrom } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";
import { attentionOf, largestEntry, norm, numberAt, opOfKind, streamOf, strongestLook, targetsIn, tokensOf } from "explorer/places";
import { gradientRef } from "explorer/refs";
import { t } from "explorer/strings";
import { changesOf, firstChanges } from "explorer/compare";
import { stationsOf } from "explorer/stations";

const STORIES = { step: stationsOf, query, information, head, norms, bug, update };

// The parts of a story; none where the document lacks what it speaks of, or the page does not hold an array that it needs.
export async function partsOf(app, key) {
  return await STORIES[key]?.(app).catch(() => null) ?? [];
}

// The stories that this document has: [{key, length}].
export async function storiesOf(app) {
  const found = [];
  for (const key of Object.keys(STORIES)) {
    found.push({ key, length: (await partsOf(app, key)).length });
  }
  return found.filter(({ length }) => length > 0);
}

// The question of a lesson at the place that its address names; the texts give two or three answers, the first of them the right one.
export function lessonParts(number) {
  const options = ["right", "wrong", "third"].map((name) => [name, t(`lesson.${number}.${name}`)]).filter(([name, text]) => text !== `lesson.${number}.${name}`);
  const shift = Number(number) % options.length;               // the right answer is not always the first one
  const shown = [...options.slice(shift), ...options.slice(0, shift)];
  return [{ key: number, numbers: {}, place: null, edits: null,
    question: { options: shown.map(([, text]) => text), right: shown.findIndex(([name]) => name === "right") } }];
}

function choice(story, part, names, right) {
  return { options: names.map((name) => t(`story.${story}.${part}.${name}`)), right: names.indexOf(right) };
}

// The edits of a comparison, for the text that the page shows.
function comparisonOf(app, name) {
  const found = app.store.comparisons().find((one) => one.name === name);
  const edits = found && [...app.state.get().edits.filter(({ kind }) => kind === "text"), ...found.edits];
  return found && app.store.can(edits) ? { ...found, edits } : null;
}

const latest = (doc, ...refs) => Math.max(...refs.filter((ref) => doc.arrays[ref]).map((ref) => existsFrom(doc, ref)));

// Why the first query gets no gradient.
async function query(app) {
  const { base: doc } = app.state.get();
  const layers = (doc.attention ?? []).filter(({ mask, query: q, key, sink }) => mask && q === key && !sink);
  const alone = await Promise.all(layers.map(({ weights }) => numberAt(app, weights, [0, 0, 0, 0], doc)));
  const entry = layers[alone.indexOf(1)];
  if (!entry) {
    return null;                      // the first token sees others
  }
  const { scores, softmax, query: tokens, queries } = await attentionOf(app, entry);
  if (queries < 3) {
    return null;
  }
  const [, , row] = await largestEntry(app, gradientRef(entry.scores));
  const token = tokens[0];
  const numbers = { token, score: formatNumber(await numberAt(app, entry.scores, [0, 0, 0, 0], doc)), last: tokens[row] };
  const column = async (name) => formatNumber(await norm(app, gradientRef(name), [0, [0, lookup(doc).value(name).shape[1]], 0, [0, lookup(doc).value(name).shape[3]]], doc));
  const sum = opOfKind(doc, "weighted sum", softmax.parent);
  const keys = { key: await column(scores.inputs.k), value: await column(sum.inputs.v) };
  return [
    { key: "weight", numbers, place: { view: "component", op: softmax.id, ref: entry.weights, index: [0, 0, 0, 0] },
      question: choice("query", "weight", ["larger", "same", "smaller"], "same") },
    { key: "score", numbers, place: { view: "component", op: softmax.id, ref: gradientRef(entry.scores), index: [0, 0, 0, 0] } },
    { key: "gradient", numbers: { ...numbers, ...keys }, place: { view: "component", op: scores.id, ref: gradientRef(scores.inputs.q), index: [0, 0, 0, 0] },
      question: choice("query", "gradient", ["both", "neither"], "neither") },
    { key: "others", numbers, place: { view: "attention", op: softmax.id, ref: gradientRef(entry.scores), index: [0, 0, row, 0], at: latest(doc, gradientRef(entry.scores)) } },
  ];
}

// Where a token's information goes.
async function information(app) {
  const { base: doc } = app.state.get();
  const look = await strongestLook(app, ({ i, j }) => Math.abs(i - j) > 1) ?? await strongestLook(app);
  if (!look) {
    return null;
  }
  const { attention, head: h, i, j } = look;
  const { entry, sum, softmax, key, query: readers } = attention;
  const values = lookup(doc).value(Object.values(doc.ops[0].outputs)[0]);
  const value = sum.inputs.v;
  const width = lookup(doc).value(value).shape[3];
  const group = Math.max(1, Math.round(attention.heads / lookup(doc).value(value).shape[1]));            // queries share a value
  const from = Array.from({ length: width }, (_, c) => c);
  const parts = await Promise.all(from.map(async (c) => look.weight * await numberAt(app, value, [0, Math.floor(h / group), j, c], doc)));
  const best = parts.map(Math.abs).indexOf(Math.max(...parts.map(Math.abs)));
  const others = readers.map((_, place) => place).filter((place) => place !== j && attention.weight(h, i, j) >= attention.weight(h, place, j));
  const shown = [i, ...others.filter((place) => place !== i)].slice(0, 3).sort((a, b) => a - b);
  const numbers = { token: key[j], reader: readers[i], head: h, layer: entry.title, weight: formatNumber(look.weight), n: values.shape.at(-1), at: j, reader_at: i };
  return [
    { key: "start", numbers, place: { view: "component", op: values.producer, ref: values.id, index: [0, j, 0] },
      question: { options: shown.map((place) => t("story.information.start.option", { token: readers[place], at: place })), right: shown.indexOf(i) } },
    { key: "weight", numbers, place: { view: "attention", op: softmax.id, ref: entry.weights, index: [0, h, i, j], at: latest(doc, entry.weights) } },
    { key: "value", numbers, place: { view: "component", op: sum.id, ref: sum.outputs.y, index: [0, h, i, best] } },
    { key: "back", numbers, place: { view: "component", op: sum.id, ref: gradientRef(value), index: [0, Math.floor(h / group), j, best] } },
  ];
}

// What a head does, and what its loss does without it.
async function head(app) {
  const { base: doc } = app.state.get();
  const found = comparisonOf(app, "head");
  const edit = found?.edits.at(-1);
  const layer = edit && doc.attention.findIndex(({ group }) => group === edit.group || group === `${edit.group}.attention`);
  const look = edit && await strongestLook(app, (one) => one.layer === layer && one.head === edit.head);
  if (!look) {
    return null;
  }
  const without = await app.store.documentOf(found.edits);
  const [before, after] = [await targetsIn(app, doc), await targetsIn(app, without)];
  const rises = after.map((one, n) => one.loss - before[n].loss);
  const most = rises.indexOf(Math.max(...rises));
  const { entry, softmax, query: readers, key } = look.attention;
  const numbers = { head: edit.head, layer: entry.title, reader: readers[look.i], token: key[look.j], weight: formatNumber(look.weight),
    target: before[most].label, after: before[most].token ?? "", before: formatNumber(before[most].loss), now: formatNumber(after[most].loss),
    p: percent(before[most].loss), q: percent(after[most].loss), loss: formatNumber(doc.loss), loss_now: formatNumber(without.loss) };
  const option = (one) => t("story.head.look.option", { target: one.label, token: one.token ?? "" });
  return [
    { key: "look", numbers, place: { view: "attention", op: softmax.id, ref: entry.weights, index: [0, edit.head, look.i, look.j], at: latest(doc, entry.weights) },
      question: { options: before.map(option), right: most } },
    { key: "without", numbers, edits: found.edits, place: { view: "predictions", ref: doc.predictions.logits, index: before[most].index, at: latest(without, "losses") } },
    { key: "both", numbers, edits: found.edits, place: { view: "hands-on", two: true, at: without.steps.length - 1 } },
  ];
}

function percent(loss) {
  return `${formatNumber(100 * Math.exp(-loss))} %`;
}

// Why pre-norm trains.
async function norms(app) {
  const { base: doc } = app.state.get();
  const found = comparisonOf(app, "norm");
  const other = found && await app.store.documentOf(found.edits);
  const sizes = other && [doc, other].map((one) => streamOf(one).slice(1).map((value) => app.store.info(gradientRef(value.id), one)?.norm));
  if (!other || sizes.some((list) => list.length < 2 || list.some((size) => !(size > 0)))) {
    return null;
  }
  const isPre = found.edits.at(-1).name === "post-norm";
  const part = (list) => ({ top: formatNumber(list.at(-1)), bottom: formatNumber(list[0]), share: formatNumber(list[0] / list.at(-1), 2) });
  const right = (list) => (list[0] / list.at(-1) > 0.7 ? "same" : list[0] / list.at(-1) > 0.1 ? "less" : "nothing");
  const placeOf = async (one) => {
    const { id, producer } = streamOf(one).at(-1);
    return { view: "component", op: producer, ref: gradientRef(id), index: await largestEntry(app, gradientRef(id), () => true, one), at: one.steps.length - 1 };
  };
  const plus = [...doc.ops].reverse().find(({ kind, parent }) => kind === "add" && parent);
  const [own, theirs] = sizes;
  const [mine, others] = isPre ? ["pre", "post"] : ["post", "pre"];
  return [
    { key: "plus", numbers: part(own), place: plus && { view: "component", op: plus.id, ref: gradientRef(plus.outputs.y), index: await largestEntry(app, gradientRef(plus.outputs.y)) } },
    { key: mine, numbers: part(own), place: await placeOf(doc),
      question: choice("norms", "size", ["same", "less", "nothing"], right(own)) },
    { key: others, numbers: part(theirs), edits: found.edits, place: await placeOf(other),
      question: choice("norms", "size", ["same", "less", "nothing"], right(theirs)) },
    { key: "both", numbers: { ...part(isPre ? own : theirs), post: part(isPre ? theirs : own).share }, edits: found.edits,
      place: { view: "hands-on", two: true, at: other.steps.length - 1 } },
  ];
}

// How a bug hides.
async function bug(app) {
  const { base: doc } = app.state.get();
  const found = comparisonOf(app, "bug");
  const wrong = found && await app.store.documentOf(found.edits);
  if (!wrong) {
    return null;
  }
  const changes = await changesOf(app.store, doc, wrong);
  const first = firstChanges(wrong, changes).backward;
  const change = first && changes.find(({ ref }) => ref === first.ref);
  const named = wrong.hands_on.bugs.find(({ name }) => name === found.edits.at(-1).name);
  const shape = change && app.store.info(change.ref, wrong).shape;
  if (!change || !named) {
    return null;
  }
  const index = shape.reduceRight(([rest, list], size) => [Math.floor(rest / size), [rest % size, ...list]], [change.at, []])[1];
  const numbers = { title: named.title, symptom: named.symptom, loss: formatNumber(doc.loss, 5), now: formatNumber(wrong.loss, 5), where: change.value.title,
    n: changes.length, right: formatNumber(await numberAt(app, change.ref, index, doc)), wrong: formatNumber(await numberAt(app, change.ref, index, wrong)) };
  return [
    { key: "question", numbers, place: { view: "component", op: first.op.id, ref: change.ref, index },
      question: choice("bug", "question", ["rises", "same", "falls"], "same") },
    { key: "first", numbers, edits: found.edits, place: { view: "component", op: first.op.id, ref: change.ref, index } },
    { key: "both", numbers, edits: found.edits, place: { view: "hands-on", two: true, at: wrong.steps.length - 1 } },
  ];
}

// How one step changes a prediction.
async function update(app) {
  const { base: doc } = app.state.get();
  const found = comparisonOf(app, "step");
  const moved = found && doc.predictions && await app.store.documentOf(found.edits);
  if (!moved) {
    return null;
  }
  const [before, after] = [await targetsIn(app, doc), await targetsIn(app, moved)];
  const most = before.reduce((best, one, n) => (one.loss > before[best].loss ? n : best), 0);
  const weights = doc.values.filter(({ kind, has_gradient }) => kind === "parameter" && has_gradient);
  const square = weights.reduce((sum, { id }) => sum + app.store.info(gradientRef(id), doc).norm ** 2, 0);
  const { lr } = found.edits.at(-1);
  const largest = [...weights].sort((a, b) => app.store.info(gradientRef(b.id), doc).norm - app.store.info(gradientRef(a.id), doc).norm)[0];
  const token = before[most].token ?? tokensOf(doc, null)[0] ?? "";
  const numbers = { target: before[most].label, token, p: percent(before[most].loss), q: percent(after[most].loss), lr, loss: formatNumber(doc.loss, 4),
    now: formatNumber(moved.loss, 4), fall: formatNumber(lr * square), real: formatNumber(doc.loss - moved.loss), weight: largest.title,
    before: formatNumber(before[most].loss), after: formatNumber(after[most].loss) };
  const way = after[most].loss < before[most].loss ? "higher" : "lower";
  const at = doc.steps.length - 1;
  return [
    { key: "before", numbers, place: { view: "predictions", ref: doc.predictions.logits, index: before[most].index, at } },
    { key: "gradients", numbers, place: { view: "ranking", at }, question: choice("update", "gradients", ["higher", "same", "lower"], way) },
    { key: "after", numbers, edits: found.edits, place: { view: "predictions", ref: doc.predictions.logits, index: before[most].index, at } },
    { key: "fall", numbers, edits: found.edits, place: { view: "hands-on", two: true, at } },
  ];
}

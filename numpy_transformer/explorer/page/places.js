// Places of a step, found by classes and kinds, never by names, so that a story fits every model that has something of the kind.

import { largestAt, unravel } from "explorer/array_view";
import { lookup } from "explorer/lookup";
import { describe, targetsOf } from "explorer/predictions_data";

export function opOfClass(doc, ...classes) {
  return doc.ops.find((op) => classes.includes(op.class));
}

export function opOfKind(doc, kind, parent = null) {
  return doc.ops.find((op) => op.kind === kind && (parent === null || op.parent === parent));
}

// The tokens along the first axis of a value that has names, of the first text.
export function tokensOf(doc, value) {
  const axis = value?.axes.find(({ tokens }) => tokens);
  return axis ? ((doc.tokens ?? {})[axis.tokens] ?? [])[0] ?? [] : [];
}

// The index of the entry that is largest in size; the first entry of an array that the page does not hold.
export async function largestEntry(app, ref, wanted = () => true, doc = app.state.get().doc) {
  const { shape, data: held } = app.store.info(ref, doc);
  const flat = held ? largestAt((await app.store.array(ref, doc)).data, wanted) : 0;
  return unravel(flat, shape);
}

export async function numberAt(app, ref, index, doc = app.state.get().doc) {
  return Number((await app.store.slice(ref, index, doc)).data[0]);
}

export async function norm(app, ref, index, doc = app.state.get().doc) {
  return Math.hypot(...(await app.store.slice(ref, index, doc)).data);
}

// The targets of the first text, with their losses in a document.
export async function targetsIn(app, doc) {
  const about = describe(app);
  const losses = (await app.store.array("losses", doc)).data;
  const targets = (await targetsOf(app, about, 0)).filter(({ target }) => target !== null);
  return targets.map((one) => ({ ...one, label: about.label(one.target), token: about.perToken ? about.token(0, one.position) : null,
    index: about.index(0, one.position, one.target), loss: Number(losses[one.position]) }));
}

// Everything about one layer of attention that a story may speak of.
export async function attentionOf(app, entry) {
  const { doc } = app.state.get();
  const { shape, data } = await app.store.array(entry.weights);
  const [, heads, queries, keys] = shape;
  const names = (which) => ((doc.tokens ?? {})[entry[which]] ?? [])[0] ?? [];
  const softmax = doc.ops.find((op) => Object.values(op.outputs).includes(entry.weights));
  const scores = opOfKind(doc, "scores", softmax.parent);
  const sum = opOfKind(doc, "weighted sum", softmax.parent);
  return { entry, heads, queries, keys, softmax, scores, sum, query: names("query"), key: names("key"),
    weight: (head, i, j) => Number(data[(head * queries + i) * keys + j]) };
}

// The largest weight with which a token looks at another one: not at itself, and not at the first, which is often looked at in vain.
export async function strongestLook(app, wanted = () => true) {
  const { doc } = app.state.get();
  let best = null;
  for (const [layer, entry] of (doc.attention ?? []).entries()) {
    if (entry.query !== entry.key || !entry.query || !app.store.info(entry.weights)?.data) {
      continue;
    }
    const attention = await attentionOf(app, entry);
    for (let head = 0; head < attention.heads; head += 1) {
      for (let i = 0; i < attention.queries; i += 1) {
        for (let j = 1; j < attention.keys; j += 1) {
          const weight = attention.weight(head, i, j);
          if (i !== j && weight > (best?.weight ?? 0) && wanted({ layer, head, i, j })) {
            best = { layer, head, i, j, weight, attention };
          }
        }
      }
    }
  }
  return best;
}

// The stream of values: what goes into the first block, and the outputs of all blocks; of two stacks, that of the decoder.
export function streamOf(doc) {
  const blocks = doc.groups.filter((group) => /block/i.test(group.class));
  const stack = blocks.filter(({ parent }) => parent === blocks.at(-1).parent);
  if (stack.length === 0) {
    return [];
  }
  const ids = [Object.values(stack[0].inputs)[0], ...stack.map((group) => Object.values(group.outputs)[0])];
  return ids.map((id) => lookup(doc).value(id));
}

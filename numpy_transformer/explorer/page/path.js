// The path of one number: forward, through the entries that depend on it most, down to the loss; backward, the same way up again.
// It is found from the gradients: dL/dx is a sum of terms, each with the gradient of one entry that x was used for. The largest
// term says where most of its influence on the loss goes. Each place is {value, index, op}, with the op that uses the number.

import { contributors, derivationOf, refOfName } from "explorer/derivation";
import { contributionRef, gradientRef, parseRef } from "explorer/refs";
import { lookup } from "explorer/lookup";

const MOST = 200;                     // places of a path

export async function pathToLoss({ store, state }, value, index) {
  const { doc } = state.get();
  const path = [];
  let here = { value, index };
  while (here && path.length < MOST && state.get().doc === doc) {
    const use = await strongestUse(store, doc, here);
    path.push({ ...here, op: use?.op ?? null });
    here = use ? await strongestEntry(store, doc, use, here.index) : null;
  }
  return path;
}

// Whether a path ends in the loss; it breaks off where the code has no formula.
export function reachesLoss(doc, path) {
  return path.length > 1 && path.at(-1).value === doc.loss_value;
}

// The consumer that sends back the largest part of the number's gradient.
async function strongestUse(store, doc, { value, index }) {
  const uses = contributors(doc, lookup(doc).value(value));
  if (uses.length < 2) {
    return uses[0] ?? null;
  }
  const sizes = await Promise.all(uses.map(async ({ op, slot }) => {
    const { data } = await store.slice(contributionRef(value, op, slot), index);
    return Math.abs(Number(data[0]));
  }));
  return uses[sizes.indexOf(Math.max(...sizes))];
}

// The entry of the consumer's output whose gradient stands in the largest term.
async function strongestEntry(store, doc, { op: id, slot }, index) {
  const op = lookup(doc).op(id);
  const value = (op.inputs ?? {})[slot] ?? (op.parameters ?? {})[slot];
  const part = contributionRef(value, id, slot);
  const ref = doc.arrays[part] ? part : gradientRef(value);
  if (Object.values(op.outputs).includes(doc.loss_value)) {
    return { value: doc.loss_value, index: [] };
  }
  if (derivationOf(doc, ref).kind !== "formula") {
    return null;
  }
  const spelled = await store.spell(ref, index, { here: true }).catch(() => null);
  const terms = spelled ? gradientTerms(doc, op, spelled) : [];
  const best = terms.reduce((most, term) => (!most || term.size > most.size ? term : most), null);
  return best && { value: best.value, index: best.index };
}

// {value, index, size} of the gradients of outputs in a spelled-out number, each with the size of the summand in which it stands.
function gradientTerms(doc, op, spelled) {
  const found = [];
  const visit = (term, size, seen) => {
    if (!term || typeof term !== "object") {
      return;
    }
    const ref = term.kind === "entry" && term.array.startsWith("d") ? refOfName(doc, op, term.array) : null;
    if (ref && Object.values(op.outputs).includes(parseRef(ref).value)) {
      found.push({ value: parseRef(ref).value, index: term.index, size });
    }
    if (term.kind === "named" && !seen.has(term.key)) {
      visit(spelled.named[term.key], size, new Set([...seen, term.key]));
    }
    const isSum = ["sum", "mean", "add", "sub"].includes(term.kind);
    (term.terms ?? []).forEach((part) => visit(part, isSum ? Math.min(size, Math.abs(part.value)) : size, seen));
  };
  visit(spelled.tree, Infinity, new Set());
  return found;
}

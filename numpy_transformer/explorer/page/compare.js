// Compares two documents array by array: the step as it was (right) and the step after the edits (wrong).

import { lookup } from "explorer/lookup";
import { SHARE, largestAmong, largestGradient } from "explorer/noise";
import { isGradient, parseRef } from "explorer/refs";

const SMALLEST = 1e-6;                        // relative changes below this are rounding, as are numbers in the noise

/**
 * Returns the changes [{ref, value, kind, via, relative, at, rough}], the largest first; `via` is the op of a contribution. `relative` is the norm of the
 * difference divided by the norm of the right array; `at` is the place of the largest difference in the flat array.
 * An array that the page does not hold is judged by its range, and marked as rough.
 */
export async function changesOf(store, right, wrong) {
  const look = lookup(wrong);
  const ofGradients = SHARE * largestGradient(store, right);
  const ofValues = SHARE * largestAmong(store, right, Object.keys(right.arrays).filter((ref) => !isGradient(ref)));
  const changes = [];
  for (const ref of Object.keys(wrong.arrays)) {
    const parts = parseRef(ref);
    const value = parts && look.value(parts.value);
    if (!value) continue;                     // the lens and numeric gradients belong to no value
    const before = store.info(ref, right);
    const now = store.info(ref, wrong);
    if (!before || now.dtype !== "float32" || String(before.shape) !== String(now.shape)) continue;
    const change = has(before) && has(now) ? await measured(store, ref, right, wrong) : byRange(before, now);
    const zero = isGradient(ref) ? ofGradients : ofValues;
    if (change.relative > SMALLEST && change.difference > zero) changes.push({ ref, value, kind: parts.kind, via: parts.op, ...change });
  }
  return changes.sort((a, b) => b.relative - a.relative);
}

function has(entry) {
  return entry.data !== undefined && entry.data !== null;
}

async function measured(store, ref, right, wrong) {
  const a = (await store.array(ref, null, right)).data;
  const b = (await store.array(ref, null, wrong)).data;
  return relativeChange(a, b);
}

/** The norm of b - a divided by the norm of a, and where they differ most; pairs that are equal add nothing, even -inf. */
function relativeChange(a, b) {
  let norm = 0;
  let difference = 0;
  let most = -1;
  let at = 0;
  a.forEach((x, i) => {
    if (Number.isFinite(x)) norm += x * x;
    if (x === b[i] || (Number.isNaN(x) && Number.isNaN(b[i]))) return;
    const gap = Math.abs(b[i] - x);
    difference += Number.isFinite(gap) ? gap * gap : Infinity;
    if (!(gap <= most)) [most, at] = [gap, i];
  });
  difference = Math.sqrt(difference);
  return { relative: ratio(difference, Math.sqrt(norm)), difference, at, rough: false };
}

function byRange(before, now) {
  const size = Math.max(Math.abs(before.min ?? 0), Math.abs(before.max ?? 0));
  const gap = Math.abs((now.min ?? 0) - (before.min ?? 0)) + Math.abs((now.max ?? 0) - (before.max ?? 0));
  return { relative: ratio(gap, size), difference: gap, at: 0, rough: true };
}

function ratio(difference, size) {
  if (difference === 0) return 0;
  return size > 0 ? difference / size : Infinity;
}

/** What one op sends back to a value: its own contribution, if others contribute too. */
function sentBack(doc, id, op, slot) {
  const contribution = `grad ${id} via ${op.id} ${slot}`;
  return contribution in doc.arrays ? contribution : `grad ${id}`;
}

/** The first changed value on the way forward and the first changed gradient on the way back, or null. */
export function firstChanges(doc, changes) {
  const look = lookup(doc);
  const changed = new Set(changes.map(({ ref }) => ref));
  const find = (phase, refsOf) => {
    for (const step of doc.steps) {
      const op = step.phase === phase && look.op(step.op);
      const ref = op && refsOf(op).find((candidate) => changed.has(candidate));
      if (ref) return { ref, op };
    }
    return null;
  };
  const gradients = (op) => Object.entries({ ...op.inputs, ...op.parameters }).flatMap(([slot, ids]) =>
    [ids].flat().map((id) => sentBack(doc, id, op, slot)));
  return { forward: find("forward", (op) => Object.values(op.outputs).flat()), backward: find("backward", gradients) };
}

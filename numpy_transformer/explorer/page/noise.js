// Some gradients are 0, such as that of a key bias, because softmax ignores what all scores of a row share. What a program
// computes for them is rounding noise: it must not look like an effect, however large it is beside other noise.

import { isGradient } from "explorer/refs";

export const SHARE = 1e-12; // of the largest gradient of the step
const known = new WeakMap(); // document -> its largest gradient

// The size below which the numbers of an array are rounding; 0 for values, which have no common scale.
export function noiseLevel(store, doc, ref) {
  return isGradient(ref) ? SHARE * largestGradient(store, doc) : 0;
}

// Whether all of an array is rounding. Where every entry is exactly 0, nothing was rounded.
export function isNoise(store, doc, ref, info) {
  const largest = largestIn(info);
  return info.dtype === "float32" && largest > 0 && largest < noiseLevel(store, doc, ref);
}

export function largestIn({ min, max }) {
  return Math.max(Math.abs(min || 0), Math.abs(max || 0));
}

export function largestGradient(store, doc) {
  if (!known.has(doc)) {
    known.set(doc, largestAmong(store, doc, Object.keys(doc.arrays).filter(isGradient)));
  }
  return known.get(doc);
}

// The largest finite number in these arrays of a document.
export function largestAmong(store, doc, refs) {
  const sizes = refs.map((ref) => store.info(ref, doc)).filter(Boolean).map(largestIn);
  return sizes.filter(Number.isFinite).reduce((most, size) => Math.max(most, size), 0);
}

// The limit of a color scale: an array's own largest entry, or the largest one of all values, or of all gradients, of the step.

import { isNoise, largestAmong, largestIn, noiseLevel } from "explorer/noise";
import { isGradient } from "explorer/refs";

const known = new WeakMap();          // document -> {true: of its gradients, false: of its values}

export function limitOf(store, doc, ref, common) {
  const info = store.info(ref, doc);
  if (common) {
    return commonLimit(store, doc, isGradient(ref)) || 1;
  }
  return (isNoise(store, doc, ref, info) ? noiseLevel(store, doc, ref) : largestIn(info)) || 1;       // noise is drawn pale
}

// The loss and its gradient, which is 1, are no part of the scale: beside them, everything else would be pale.
function commonLimit(store, doc, ofGradients) {
  if (!known.has(doc)) {
    known.set(doc, {});
  }
  const limits = known.get(doc);
  limits[ofGradients] ??= largestAmong(store, doc, Object.keys(doc.arrays).filter((ref) =>
    isGradient(ref) === ofGradients && store.info(ref, doc).shape.length > 0 && store.info(ref, doc).dtype === "float32"));
  return limits[ofGradients];
}

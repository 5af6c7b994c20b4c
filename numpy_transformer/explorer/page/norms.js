// How large gradients are: the norm of one, or of what some of a value's consumers send back, and the largest of the step.

import { contributionRef, gradientRef, isGradient } from "explorer/refs";
import { lookup } from "explorer/lookup";

const known = new WeakMap();

export function normOf(doc, store, id, senders) {
  const value = lookup(doc).value(id);
  const parts = value.consumers.filter(({ op }) => senders.includes(op)).map(({ op, slot }) => store.info(contributionRef(id, op, slot), doc));
  const sent = parts.filter(Boolean);
  const whole = store.info(gradientRef(id), doc);
  if (sent.length === 0 || sent.length === value.consumers.length) {
    return senders.length > 0 ? whole?.norm ?? 0 : 0;
  }
  return Math.hypot(...sent.map(({ norm }) => norm));
}

// The largest norm of a gradient; that of the loss itself is 1 in every step and says nothing.
export function largestNorm(doc, store) {
  if (!known.has(doc)) {
    const norms = Object.keys(doc.arrays).filter(isGradient).map((ref) => store.info(ref, doc))
      .filter(({ shape, norm }) => shape.length > 0 && Number.isFinite(norm)).map(({ norm }) => norm);
    known.set(doc, Math.max(...norms, 1e-300));
  }
  return known.get(doc);
}

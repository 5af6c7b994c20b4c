// Whether gradients agree with finite differences of the loss: the one limit that all parts of the page judge by, and the
// arrays that a reader should look at first where they do not agree.

import { lookup } from "explorer/lookup";

// Correct gradients of a float64 step differ by about 10⁻¹⁰ from the quotients; wrong ones by far more than this.
const LIMIT = 1e-5;

export function agrees(error) {
  return error <= LIMIT;
}

// The arrays whose gradients do not agree: {worst: {value, error}, first: {value, error}}, or null if all agree.
// `first` is the first of them that backward computed; the later ones may be wrong only because this one is.
export function disagreements(doc) {
  const { errors = {} } = (doc && doc.proof) || {};
  const wrong = inBackwardOrder(doc, Object.keys(errors))
    .map((id) => ({ value: lookup(doc).value(id), error: errors[id] }))
    .filter(({ value, error }) => value && typeof error === "number" && !agrees(error));
  if (!wrong.length) return null;
  const worst = wrong.reduce((most, each) => (each.error > most.error ? each : most));
  return { worst, first: wrong[0] };
}

// A gradient is complete when the first consumer of its value, in the order of forward, has run backward.
function inBackwardOrder(doc, ids) {
  const look = lookup(doc);
  const stepOf = (id) => {
    const steps = ((look.value(id) || {}).consumers || []).map(({ op }) => look.stepOf(op, "backward"));
    return Math.max(-1, ...steps.filter((step) => step !== null));
  };
  const placed = ids.map((id) => ({ id, step: stepOf(id) }));
  return placed.sort((a, b) => a.step - b.step).map(({ id }) => id);
}

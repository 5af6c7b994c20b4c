// Which arrays exist at a place of the time line: what the step has not computed yet cannot be seen.

import { lookup } from "explorer/lookup";
import { contributionRef, parseRef } from "explorer/refs";

const known = new WeakMap();

// The step at which an array is complete; -1 for what is there from the start, such as inputs and parameters.
export function existsFrom(doc, ref) {
  if (!known.has(doc)) {
    known.set(doc, new Map());
  }
  const steps = known.get(doc);
  if (!steps.has(ref)) {
    steps.set(ref, find(doc, ref));
  }
  return steps.get(ref);
}

export function exists({ doc, at }, ref) {
  return existsFrom(doc, ref) <= at;
}

function find(doc, ref) {
  const look = lookup(doc);
  const { kind, value: id, op } = parseRef(ref);
  const value = id ? look.value(id) : null;
  if (kind === "other") {
    return loss(doc, look);                        // losses, and what the lens adds to the step
  }
  if (!value) {
    return -1;
  }
  if (kind === "value") {
    return value.producer ? look.stepOf(value.producer, "forward") ?? -1 : -1;
  }
  return kind === "contribution" ? look.stepOf(op, "backward") ?? loss(doc, look) : gradient(doc, look, value);
}

// The gradient of a value is complete once all of its consumers have sent back their part; that of the loss is where backward begins.
function gradient(doc, look, value) {
  const senders = value.consumers.filter(({ op, slot }) => value.consumers.length === 1 || doc.arrays[contributionRef(value.id, op, slot)]);
  const steps = senders.map(({ op }) => look.stepOf(op, "backward")).filter((at) => at !== null);
  return steps.length > 0 ? Math.max(...steps) : loss(doc, look);
}

// The loss is the last thing that forward computes. Its gradient, 1, stands beside it.
function loss(doc, look) {
  return look.steps.forward - 1;
}

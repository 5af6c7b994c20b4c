// How far the step has come at a place of the time line: what is done, what runs now, and along which lines something flows.

import { lookup } from "explorer/lookup";

export function progressAt(doc, at) {
  const look = lookup(doc);
  const step = doc.steps[at] ?? { phase: "forward", op: null };
  const done = { forward: new Set(), backward: new Set() };
  doc.steps.slice(0, at + 1).forEach(({ phase, op }) => {
    if (op) {
      done[phase].add(op);
    }
  });
  const item = look.op(step.op);
  const now = step.op ?? null;
  const inputs = new Set(item ? Object.values(item.inputs).flat() : []);
  const parameters = new Set(item ? Object.values(item.parameters ?? {}) : []);
  const outputs = new Set(item ? Object.values(item.outputs).flat() : []);

  // A value exists once its producer has run; a part of its gradient exists once one of these consumers has run backward.
  const valueDone = (value) => {
    const producer = look.value(value)?.producer;
    return !producer || done.forward.has(producer);
  };
  const gradientFrom = (consumers) => consumers.filter((op) => done.backward.has(op)).length;

  // What moves along a line now: values into the present op, and out of it; backward, gradients the other way.
  function flow(value, consumers) {
    const touches = (outputs.has(value)) || ((inputs.has(value) || parameters.has(value)) && consumers.includes(now));
    if (!touches || !now) {
      return null;
    }
    if (step.phase === "backward" && !look.value(value)?.has_gradient) {
      return null;
    }
    return step.phase === "backward" ? "backward" : "forward";
  }

  return { phase: step.phase, now, done, valueDone, gradientFrom, flow };
}

// Where the time line stands, in words: {phase, n, of}.
export function positionOf(doc, at) {
  const { steps } = lookup(doc);
  const { phase } = doc.steps[at] ?? { phase: "forward" };
  if (phase === "backward") {
    return { phase, n: at - steps.forward + 1, of: steps.backward };
  }
  return phase === "optimizer" ? { phase, n: 1, of: 1 } : { phase, n: at + 1, of: steps.forward };
}

// Where the numbers of an array come from: the formula of the op that computed them, the sum of what several
// consumers send back, or nothing (inputs, parameters, the loss itself).

import { lookup } from "explorer/lookup";
import { contributionRef, gradientRef, parseRef, valueOf } from "explorer/refs";

// {kind: "input" | "parameter" | "formula" | "no formula" | "variable" | "sum" | "one" | "unused" | "untraced", op, target, parts}
export function derivationOf(doc, ref) {
  const { kind, value: id, op, slot } = parseRef(ref);
  const value = valueOf(doc, ref);
  if (kind === "contribution") return madeBy(doc, op, "d" + slot);
  if (!value) return { kind: "unknown" };
  if (value.kind === "variable") return { kind: "variable" };
  if (kind === "value") return derivationOfValue(doc, value);
  if (kind !== "gradient") return { kind: "unknown" };

  const parts = contributors(doc, value);
  if (value.kind === "loss" && !parts.length) return { kind: "one" };
  if (!parts.length) return { kind: (value.consumers || []).length ? "untraced" : "unused" };
  if (parts.length === 1) return madeBy(doc, parts[0].op, "d" + parts[0].slot);
  return { kind: "sum", parts: parts.map((part) => ({ ...part, ref: contributionRef(id, part.op, part.slot) })) };
}

function derivationOfValue(doc, value) {
  if (value.kind === "parameter") return { kind: "parameter" };
  if (!value.producer) return { kind: "input" };
  const op = lookup(doc).op(value.producer);
  const output = Object.entries(op.outputs).find(([, id]) => id === value.id);
  return madeBy(doc, value.producer, output ? output[0] : "y");
}

function madeBy(doc, opId, target) {
  const op = lookup(doc).op(opId);
  const formula = op && op.formulas ? op.formulas[target] : null;
  return { kind: formula ? "formula" : "no formula", op, target, formula: formula ? doc.formulas[formula] : null };
}

// The consumers that send a gradient back. One consumer of several shows itself by its own array.
// (Ids, masks and targets are consumed as well, but get no gradient.)
export function contributors(doc, value) {
  const consumers = value.consumers || [];
  const sending = consumers.filter(({ op, slot }) => doc.arrays[contributionRef(value.id, op, slot)]);
  if (sending.length) return sending;
  if (!doc.arrays[gradientRef(value.id)]) return [];
  return consumers.filter(({ op }) => lookup(doc).stepOf(op, "backward") !== null).slice(0, 1);
}

// A name in an op's formula as the ref of its array: x, weight, y, dy, and dx for what this op sends back.
export function refOfName(doc, op, name) {
  const slots = { ...op.inputs, ...op.parameters, ...op.outputs };
  if (slots[name]) return slots[name];
  const bare = name.startsWith("d") ? name.slice(1) : "";
  if (op.outputs[bare]) return gradientRef(op.outputs[bare]);
  const id = (op.inputs || {})[bare] || (op.parameters || {})[bare];
  if (!id) return null;
  const contribution = contributionRef(id, op.id, bare);
  return doc.arrays[contribution] ? contribution : gradientRef(id);
}

// The arrays that are computed from this one: {ref, op, name}. Forward: the outputs of its consumers. Backward: what
// the producer's backward makes of it, down to its inputs and parameters.
export function goesTo(doc, ref) {
  const { kind, value: id, op: opId, slot } = parseRef(ref);
  const value = valueOf(doc, ref);
  if (!value) return [];
  if (kind === "contribution") return [{ ref: gradientRef(id), op: lookup(doc).op(opId), name: "d" + slot }];
  if (kind === "value") {
    const outputs = (value.consumers || []).flatMap(({ op: consumer }) => {
      const op = lookup(doc).op(consumer);
      return op ? Object.entries(op.outputs).map(([name, output]) => ({ ref: output, op, name })) : [];
    });
    return present(doc, outputs);
  }
  const producer = value.producer ? lookup(doc).op(value.producer) : null;
  if (kind !== "gradient" || !producer) return [];
  const names = [...Object.keys(producer.inputs || {}), ...Object.keys(producer.parameters || {})];
  return present(
    doc,
    names.map((name) => ({ ref: refOfName(doc, producer, "d" + name), op: producer, name: "d" + name })),
  );
}

function present(doc, list) {
  const seen = new Set();
  return list.filter(({ ref }) => {
    const keep = ref && doc.arrays[ref] && !seen.has(ref);
    seen.add(ref);
    return keep;
  });
}

// Answers questions about a document: which op makes a value, which groups contain an op, at which step it runs.
// The answers are computed once per document.

const known = new WeakMap();

export function lookup(doc) {
  if (!known.has(doc)) {
    known.set(doc, build(doc));
  }
  return known.get(doc);
}

function build(doc) {
  const values = new Map(doc.values.map((value) => [value.id, value]));
  const ops = new Map(doc.ops.map((op) => [op.id, op]));
  const groups = new Map(doc.groups.map((group) => [group.id, group]));
  const steps = { forward: new Map(), backward: new Map() };
  doc.steps.forEach((step, at) => {
    if (step.op) {
      steps[step.phase].set(step.op, at);
    }
  });
  const backward = doc.steps.findIndex((step) => step.phase === "backward");
  const optimizer = doc.steps.findIndex((step) => step.phase === "optimizer");

  const node = (id) => ops.get(id) ?? groups.get(id) ?? null;

  // The groups around an op or group, from the outermost to its parent.
  function ancestors(id) {
    const chain = [];
    let parent = node(id)?.parent;
    while (parent && groups.has(parent)) {
      chain.unshift(parent);
      parent = groups.get(parent).parent;
    }
    return chain;
  }

  // The ops and groups directly in a group ("" is the whole step), in the order in which they run.
  function children(id) {
    const order = (item) => firstStep(item.id);
    return [...doc.ops, ...doc.groups].filter((item) => (item.parent || "") === id)
      .sort((a, b) => order(a) - order(b));
  }

  const first = new Map();
  doc.ops.forEach((op, position) => {
    const at = steps.forward.get(op.id) ?? position;
    first.set(op.id, at);
    for (const group of ancestors(op.id)) {
      first.set(group, Math.min(first.get(group) ?? Infinity, at));
    }
  });

  function firstStep(id) {
    return first.get(id) ?? Infinity;
  }

  // The step of an op (for a group: of its first op in this phase), or null.
  function stepOf(id, phase) {
    if (ops.has(id)) {
      return steps[phase].get(id) ?? null;
    }
    let best = null;
    for (const [op, at] of steps[phase]) {
      if (ancestors(op).includes(id) && (best === null || at < best)) {
        best = at;
      }
    }
    return best;
  }

  // All values that an op or group touches, with the name that it uses for them.
  function touches(id) {
    const item = node(id);
    return item ? [...Object.values(item.inputs ?? {}), ...Object.values(item.parameters ?? {}),
                   ...Object.values(item.outputs ?? {})].flat() : [];
  }

  return {
    value: (id) => values.get(id) ?? null, op: (id) => ops.get(id) ?? null, group: (id) => groups.get(id) ?? null,
    node, ancestors, children, firstStep, stepOf, touches,
    steps: { forward: backward < 0 ? countForward(doc) : backward,
             backward: backward < 0 ? 0 : (optimizer < 0 ? doc.steps.length : optimizer) - backward,
             optimizer },
  };
}

function countForward(doc) {
  return doc.steps.filter((step) => step.phase === "forward").length;
}

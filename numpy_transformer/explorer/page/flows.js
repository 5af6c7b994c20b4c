// What flows on the map between the members of a group: values from ops, inputs and shared parameters to ops.
// Masks are marks on their ops, and a parameter is a box only if it is shared.

import { lookup } from "explorer/lookup";
import { t } from "explorer/strings";

// All flows: from where, to which ops.
export function visibleGraph(doc) {
  const look = lookup(doc);
  const flows = [];
  for (const value of doc.values) {
    const all = value.consumers.filter(({ op }) => look.op(op));
    const uses = all.filter(({ slot }) => !isMask(value, slot));
    const shared = value.kind === "parameter" && new Set(all.map(({ op }) => op)).size > 1;
    if (uses.length === 0 || (value.kind === "parameter" && !shared) || value.kind === "constant") {
      continue;
    }
    const ops = [...new Set(uses.map(({ op }) => op))];
    flows.push({ value, producer: value.producer, ops, shared, home: value.producer ? null : commonGroup(look, ops) });
  }
  return flows;
}

function isMask(value, slot) {
  return /mask/.test(slot) || value.axes?.some((axis) => axis.name === "mask");
}

function commonGroup(look, ops) {
  const chains = ops.map((op) => look.ancestors(op));
  let common = "";
  for (let depth = 0; depth < chains[0].length; depth += 1) {
    if (!chains.every((chain) => chain[depth] === chains[0][depth])) {
      break;
    }
    common = chains[0][depth];
  }
  return common;
}

// The child of a group in which an op stands, or null if it stands elsewhere.
function childHolding(look, group, op) {
  const chain = [...look.ancestors(op), op];
  if (group === "") {
    return chain[0];
  }
  const at = chain.indexOf(group);
  return at < 0 ? null : chain[at + 1];
}

// The edges between the members of a group; values from outside come from a port "in:...", values that leave go to "out:...".
export function edgesOf(group, { look, graph }) {
  const edges = [];
  for (const flow of graph) {
    const { value } = flow;
    const inside = new Map();
    let leaves = false;
    for (const op of flow.ops) {
      const child = childHolding(look, group, op);
      if (child) {
        inside.set(child, [...(inside.get(child) ?? []), op]);
      } else {
        leaves = true;
      }
    }
    let from = flow.producer ? childHolding(look, group, flow.producer) : null;
    let port = false;
    if (!flow.producer && flow.home === group) {
      from = value.id;
    } else if (!from && inside.size > 0) {
      if (!flow.producer && look.ancestors(flow.home).concat(flow.home).includes(group)) {
        continue;                        // its box stands in one of the members
      }
      from = `in:${value.id}`;
      port = true;
    }
    if (!from) {
      continue;
    }
    for (const [to, ops] of inside) {
      if (to !== from) {
        edges.push({ value, from, to, ops, port, shared: flow.shared });
      }
    }
    if (leaves && !port) {
      const ops = flow.ops.filter((op) => !childHolding(look, group, op));
      edges.push({ value, from, to: `out:${value.id}`, ops, port: true, shared: flow.shared });
    }
  }
  return edges;
}

export function portsOf(edges) {
  const ports = new Map();
  for (const edge of edges) {
    if (edge.from.startsWith("in:")) {
      ports.set(edge.from, "first");
    }
    if (edge.to.startsWith("out:")) {
      ports.set(edge.to, "last");
    }
  }
  return ports;
}

// From one group to another that has a main input of its own (encoder to decoder): these are drawn side by side.
export function findSideEdges(edges, look) {
  return edges.filter((edge) => {
    const from = look.group(edge.from);
    const to = look.group(edge.to);
    if (!from || !to || edge.port) {
      return false;
    }
    const slots = Object.values(to.inputs ?? {});
    return slots.indexOf(edge.value.id) > 0 && !reaches(edges, edge.from, to, slots[0]);
  });
}

// Whether the main input of a group also comes from the other group; then they belong one below the other.
function reaches(edges, start, to, main) {
  const seen = new Set([start]);
  const queue = [start];
  while (queue.length > 0) {
    const at = queue.pop();
    for (const edge of edges.filter((other) => other.from === at)) {
      if (edge.to === to.id && edge.value.id === main) {
        return true;
      }
      if (edge.to !== to.id && !seen.has(edge.to)) {
        seen.add(edge.to);
        queue.push(edge.to);
      }
    }
  }
  return false;
}

export function inputLabel(value) {
  return value.kind === "parameter" ? t("map.shared") : value.title;
}

export function hasMask(item) {
  return Object.keys(item.inputs ?? {}).some((slot) => /mask/.test(slot));
}

export function isRound(op) {
  return op.kind === "add" || op.kind === "multiply";
}

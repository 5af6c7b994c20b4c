// Draws a directed graph in layers, from top to bottom: which layer a node stands in, in which order, at which x and y, and the
// lines between them. Any graph will do; nothing here knows a model.
//
//   nodes  {id, w, h, round, pin: "first" | "last" | null, tie}     tie: smaller numbers stand further left, all else being equal
//   edges  {value, from, to, fromDx, toDx, consumers, minor}         Dx: where the line leaves or enters, from the node's center;
//                                                                    null lets the lines share the node's width. A minor edge
//                                                                    (to a parameter) enters from the side and moves no node
// arrange() gives each node layer, x (its center) and y (its top), and returns {width, height, lines, fans}.
// A line is the part of an edge between two neighboring layers; edges of one value share their lines as long as they can.

import { placeColumns, shiftToZero } from "explorer/map_columns";
import { findFans, placeRows, route } from "explorer/map_rows";

export function arrange(nodes, edges) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const links = edges.filter((edge) => edge.from !== edge.to && byId.has(edge.from) && byId.has(edge.to));
  assignLayers(nodes, links, byId);
  const layers = [];
  for (const node of nodes) {
    (layers[node.layer] ??= []).push(node);
  }
  for (let layer = 0; layer < layers.length; layer += 1) {
    layers[layer] ??= [];
  }
  const lines = makeLines(links, byId, layers);
  orderLayers(layers, lines);
  shareWidths(nodes, lines);
  placeColumns(layers, lines);
  const height = placeRows(layers, lines);
  const width = shiftToZero(layers);
  for (const line of lines) {
    line.points = route(line, layers);
  }
  return { width, height, lines, fans: findFans(lines) };
}

// The longest way from a source; a source without a place of its own stands just above its first consumer.
function assignLayers(nodes, links, byId) {
  const incoming = new Map(nodes.map((node) => [node.id, []]));
  const outgoing = new Map(nodes.map((node) => [node.id, []]));
  for (const link of links) {
    incoming.get(link.to).push(link.from);
    outgoing.get(link.from).push(link.to);
  }
  const top = nodes.some((node) => node.pin === "first") ? 1 : 0;
  const visiting = new Set();
  const depth = (node) => {
    if (node.layer === undefined && !visiting.has(node.id)) {
      visiting.add(node.id);         // a cycle (a component called twice by its own parent) is cut where it is met
      const above = incoming.get(node.id).map((id) => depth(byId.get(id)));
      visiting.delete(node.id);
      node.layer = node.pin === "first" ? 0 : Math.max(top, ...above.map((layer) => layer + 1));
    }
    return node.layer ?? 0;
  };
  nodes.forEach(depth);
  for (const node of nodes) {
    const below = outgoing.get(node.id).map((id) => byId.get(id).layer);
    if (node.pin !== "first" && incoming.get(node.id).length === 0 && below.length > 0) {
      node.layer = Math.max(top, Math.min(...below) - 1);
    }
  }
  const bottom = Math.max(0, ...nodes.filter((node) => node.pin !== "last").map((node) => node.layer + 1));
  for (const node of nodes.filter((other) => other.pin === "last")) {
    node.layer = bottom;
  }
}

// Where an edge passes a layer, a bend (a node without a size) takes its place there; edges of one value share their bends.
function makeLines(links, byId, layers) {
  const lines = new Map();
  const bends = new Map();
  for (const link of links) {
    const from = byId.get(link.from);
    const to = byId.get(link.to);
    let last = from;
    for (let layer = from.layer + 1; layer <= to.layer; layer += 1) {
      let next = to;
      if (layer < to.layer) {
        const key = `${link.from}\n${link.value}\n${layer}`;
        next = bends.get(key);
        if (!next) {
          next = { id: key, value: link.value, w: 6, h: 0, bend: true, layer, tie: link.tie ?? -1 };
          bends.set(key, next);
          layers[layer].push(next);
        }
      }
      const key = `${last.id}\n${link.value}\n${next.id}`;
      const line = lines.get(key) ?? {
        value: link.value, a: last, b: next, aDx: last.bend ? 0 : link.fromDx, bDx: next.bend ? 0 : link.toDx,
        consumers: new Set(), minor: Boolean(link.minor),
      };
      link.consumers.forEach((op) => line.consumers.add(op));
      lines.set(key, line);
      last = next;
    }
  }
  return [...lines.values()];
}

// Neighbors' mean position, downward and upward in turn, keeps crossings few.
function orderLayers(layers, lines) {
  const number = () => layers.forEach((layer) => layer.forEach((node, i) => { node.order = i; }));
  layers.forEach((layer) => layer.sort((p, q) => (p.tie ?? 0) - (q.tie ?? 0)));
  number();
  const sweep = (layer, near) => {
    const place = new Map(layer.map((node) => {
      const orders = lines.filter((line) => near(line, node)).map((line) => (line.a === node ? line.b : line.a))
        .map((other) => (other.order + 0.5) / layers[other.layer].length);
      const mean = orders.reduce((sum, order) => sum + order, 0) / orders.length;
      return [node, orders.length ? mean : (node.order + 0.5) / layer.length];
    }));
    layer.sort((p, q) => place.get(p) - place.get(q) || (p.tie ?? 0) - (q.tie ?? 0) || p.order - q.order);
    layer.forEach((node, i) => { node.order = i; });
  };
  for (let round = 0; round < 4; round += 1) {
    layers.slice(1).forEach((layer) => sweep(layer, (line, node) => line.b === node));
    if (round < 3) {
      [...layers].reverse().slice(1).forEach((layer) => sweep(layer, (line, node) => line.a === node));
    }
  }
}

// Several lines into (or out of) a box without ports share its width, in the order of where they come from.
function shareWidths(nodes, lines) {
  for (const node of nodes) {
    for (const [end, dx, other] of [["b", "bDx", "a"], ["a", "aDx", "b"]]) {
      const free = lines.filter((line) => line[end] === node && line[dx] === null && !(line.minor && end === "b"));
      const values = [...new Set(free.sort((p, q) => p[other].order - q[other].order)
        .map((line) => (end === "a" ? line.value : `${line.value}\n${line[other].id}`)))];
      for (const line of free) {
        const i = values.indexOf(end === "a" ? line.value : `${line.value}\n${line[other].id}`);
        line[dx] = node.round ? 0 : node.w * ((i + 1) / (values.length + 1) - 0.5);
      }
    }
  }
}

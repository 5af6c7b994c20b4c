// Draws a directed graph in layers, from top to bottom: which layer a node stands in, in which order, at which x and y, and the
// lines between them. Any graph will do; nothing here knows a model.
//
//   nodes  {id, w, h, round, pin: "first" | "last" | null, tie}     tie: smaller numbers stand further left, all else being equal
//   edges  {value, from, to, fromDx, toDx, consumers, minor}         Dx: where the line leaves or enters, from the node's center;
//                                                                    null lets the lines share the node's width. A minor edge
//                                                                    (to a parameter) enters from the side and moves no node
// arrange() gives each node layer, x (its center) and y (its top), and returns {width, height, lines, fans}.
// A line is the part of an edge between two neighboring layers; edges of one value share their lines as long as they can.

const GAP = 22;            // between two layers
const TRACK = 7;           // between two horizontal lines in the same gap
const APART = 12;          // between two nodes of a layer

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

// Minor lines count for nearly nothing, so that a parameter does not pull the stream aside.
function weightOf({ a, b, minor }) {
  if (minor) {
    return 0.01;
  }
  const stream = (a.bend || a.round) && (b.bend || b.round) ? 8 : 1;
  const near = a.bend || b.bend || b.round ? 2 : 1;
  return stream * near * (a.light ? 0.02 : 1);
}

// Each node wants to stand where its lines are straight; long lines and round nodes (the residual stream) come first.
function placeColumns(layers, lines) {
  for (const layer of layers) {
    let x = 0;
    for (const node of layer) {
      node.x = x + node.w / 2;
      x += node.w + APART;
    }
  }
  const wishes = (node, up, down) => lines
    .filter((line) => (up && line.b === node) || (down && line.a === node))
    .map((line) => (line.b === node ? [line.a.x + line.aDx - (line.bDx ?? 0), weightOf(line)]
                                    : [line.b.x + (line.bDx ?? 0) - line.aDx, weightOf(line)]));
  const settle = (layer, up, down) => {
    const wanted = layer.map((node) => wishes(node, up, down));
    const places = spread(layer.map((node, i) => (wanted[i].length ? weightedMedian(wanted[i]) : node.x)), layer,
                          wanted.map((list) => list.reduce((sum, [, w]) => sum + w, 0.001)));
    layer.forEach((node, i) => { node.x = places[i]; });
  };
  for (let round = 0; round < 8; round += 1) {
    layers.forEach((layer) => settle(layer, true, round > 3));
    [...layers].reverse().forEach((layer) => settle(layer, round > 3, true));
  }
  layers.forEach((layer) => settle(layer, true, true));
  straighten(layers, chooseStraight(lines));
}

// Lines that shall be straight: at most one into a node and one out of it, the residual stream and long lines first.
function chooseStraight(lines) {
  const flows = (node) => node.bend || node.round || node.port;
  const major = lines.filter((line) => !line.minor && !line.a.light);
  const rank = (line) => {
    if (flows(line.a) && flows(line.b)) {
      return 3;
    }
    if (line.a.light && !line.minor && !line.b.bend && lines.filter((other) => other.b === line.b && !other.minor).length === 1) {
      return 0.5;
    }
    const out = major.filter((other) => other.a === line.a);
    const into = major.filter((other) => other.b === line.b);
    if (out.length === 1 && into.length === 1) {
      return 2;
    }
    const middle = out.length % 2 === 1 && [...out].sort((p, q) => p.b.order - q.b.order)[(out.length - 1) / 2] === line;
    return line.b.bend || (middle && into.length === 1) ? 1 : 0;
  };
  const chosen = [];
  const ranked = lines.map((line) => [rank(line), line]).filter(([r]) => r > 0).sort((p, q) => q[0] - p[0]);
  for (const [, line] of ranked) {
    const free = chosen.every(({ a, b }) => a !== line.a && b !== line.b
      && (a.layer !== line.a.layer || (a.order - line.a.order) * (b.order - line.b.order) > 0));
    if (free) {
      chosen.push(line);
    }
  }
  return chosen;
}

// Nodes on a straight line move as one; each such row stands near the mean of its nodes, and not too near to its left neighbors.
function straighten(layers, straight) {
  const rows = new Map();
  for (const node of layers.flat()) {
    rows.set(node, { nodes: [node], offsets: new Map([[node, 0]]), x: undefined });
  }
  for (const line of straight) {
    const upper = rows.get(line.a);
    const lower = rows.get(line.b);
    const shift = upper.offsets.get(line.a) + line.aDx - (line.bDx ?? 0) - lower.offsets.get(line.b);
    for (const node of lower.nodes) {
      upper.nodes.push(node);
      upper.offsets.set(node, lower.offsets.get(node) + shift);
      rows.set(node, upper);
    }
  }
  const place = (row) => {
    if (row.x !== undefined) {
      return row.x;
    }
    row.x = middleOf(row.nodes.map((node) => node.x - row.offsets.get(node)));       // stands, if rows wait for each other
    for (const node of row.nodes) {
      const left = layers[node.layer][node.order - 1];
      if (left && rows.get(left) !== row) {
        const other = rows.get(left);
        const edge = place(other) + other.offsets.get(left) + left.w / 2 + apart(left, node) + node.w / 2;
        row.x = Math.max(row.x, edge - row.offsets.get(node));
      }
    }
    return row.x;
  };
  new Set(rows.values()).forEach(place);
  for (const node of layers.flat()) {
    node.x = rows.get(node).x + rows.get(node).offsets.get(node);
  }
}

function middleOf(numbers) {
  return numbers.sort((p, q) => p - q)[numbers.length >> 1];
}

function apart(left, right) {
  return left.bend && right.bend ? 6 : APART;
}

function weightedMedian(list) {
  list.sort((p, q) => p[0] - q[0]);
  const half = list.reduce((sum, [, w]) => sum + w, 0) / 2;
  let sum = 0;
  for (let i = 0; i < list.length; i += 1) {
    sum += list[i][1];
    if (Math.abs(sum - half) < 1e-9 && i + 1 < list.length) {
      return (list[i][0] + list[i + 1][0]) / 2;
    }
    if (sum > half) {
      return list[i][0];
    }
  }
  return list[list.length - 1][0];
}

// The places nearest to the wishes that keep the order and the distances: neighbors that collide move as one block.
function spread(wishes, layer, weights) {
  const offsets = [0];
  for (let i = 1; i < layer.length; i += 1) {
    offsets.push(offsets[i - 1] + layer[i - 1].w / 2 + apart(layer[i - 1], layer[i]) + layer[i].w / 2);
  }
  const blocks = [];
  wishes.forEach((wish, i) => {
    let block = { sum: (wish - offsets[i]) * weights[i], weight: weights[i], count: 1 };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight > block.sum / block.weight) {
      const previous = blocks.pop();
      block = { sum: previous.sum + block.sum, weight: previous.weight + block.weight, count: previous.count + block.count };
    }
    blocks.push(block);
  });
  const places = [];
  for (const block of blocks) {
    for (let i = 0; i < block.count; i += 1) {
      places.push(block.sum / block.weight + offsets[places.length]);
    }
  }
  return places;
}

// Layers below each other; a gap grows with the number of horizontal lines that must not lie on each other.
function placeRows(layers, lines) {
  let y = 0;
  layers.forEach((layer, number) => {
    const height = Math.max(0, ...layer.map((node) => node.h));
    for (const node of layer) {
      node.y = height > 90 && node.h > 30 ? y : y + (height - node.h) / 2;       // groups side by side begin together
      node.rowTop = y;
      node.rowHeight = height;
    }
    y += height;
    if (number < layers.length - 1) {
      const tracks = assignTracks(lines.filter((line) => line.a.layer === number && bent(line)));
      const pinned = layers[number + 1].every((node) => node.pin === "last") || layer.every((node) => node.pin === "first");
      const gap = pinned && tracks.length === 0 ? GAP / 2 : GAP + TRACK * Math.max(0, tracks.length - 1);
      tracks.forEach((track, i) => {
        for (const line of track) {
          line.trackY = y + gap / 2 + TRACK * (i - (tracks.length - 1) / 2);
        }
      });
      for (const line of lines.filter((other) => other.a.layer === number && !bent(other))) {
        line.trackY = y + gap / 2;
      }
      y += gap;
    }
  });
  return y;
}

function bent(line) {
  return Math.abs(line.a.x + line.aDx - line.b.x - (line.bDx ?? 0)) > 0.5;
}

function assignTracks(lines) {
  const spans = new Map();
  for (const line of lines) {
    const ends = [line.a.x + line.aDx, line.b.x + (line.bDx ?? 0)];
    const key = `${line.a.id}\n${line.value}`;
    const span = spans.get(key) ?? { low: Infinity, high: -Infinity, lines: [] };
    span.low = Math.min(span.low, ...ends);
    span.high = Math.max(span.high, ...ends);
    span.lines.push(line);
    spans.set(key, span);
  }
  const tracks = [];
  for (const span of [...spans.values()].sort((p, q) => (q.high - q.low) - (p.high - p.low))) {
    let track = tracks.find((other) => other.every(({ low, high }) => high + 6 < span.low || span.high + 6 < low));
    if (!track) {
      track = [];
      tracks.push(track);
    }
    track.push(span);
  }
  return tracks.map((track) => track.flatMap((span) => span.lines));
}

function shiftToZero(layers) {
  const all = layers.flat();
  const left = Math.min(...all.map((node) => node.x - node.w / 2));
  for (const node of all) {
    node.x -= left;
  }
  return Math.max(...all.map((node) => node.x + node.w / 2));
}

// Down, across, down; into a round node from the side, if nothing stands in the way.
function route(line, layers) {
  const { a, b } = line;
  const x1 = a.x + line.aDx;
  const x2 = b.x + (line.bDx ?? (Math.sign(a.x - b.x) * b.w) / 4);
  const y1 = a.bend ? a.rowTop : a.y + a.h;
  const y2 = b.bend ? b.rowTop : b.y;
  if ((b.round && Math.abs(x1 - x2) > b.w) || (line.minor && !b.bend && Math.abs(x1 - b.x) > b.w / 2 + 4)) {
    const clear = layers[b.layer].every((node) => node === b || node.value === line.value
      || Math.max(x1, b.x) < node.x - node.w / 2 - 4 || Math.min(x1, b.x) > node.x + node.w / 2 + 4);
    if (clear) {
      const side = b.x + Math.sign(x1 - b.x) * b.w / 2;
      return [[x1, y1], [x1, b.y + b.h / 2], [side, b.y + b.h / 2]];
    }
  }
  if (!bent(line)) {
    return [[x1, y1], [x2, y2]];
  }
  return [[x1, y1], [x1, line.trackY], [x2, line.trackY], [x2, y2]];
}

// Where lines of one value part: backward, the gradients meet there and are added.
function findFans(lines) {
  const starts = new Map();
  for (const line of lines) {
    const key = `${line.a.id}\n${line.value}`;
    starts.set(key, [...(starts.get(key) ?? []), line]);
  }
  const fans = [];
  for (const group of starts.values()) {
    if (group.length > 1) {
      const { a, aDx, value } = group[0];
      const y = Math.min(...group.map((line) => line.trackY));
      fans.push({ value, x: a.x + aDx, y, branches: group.map((line) => [...line.consumers]) });
    }
  }
  return fans;
}

// The columns of the map: the x of each node, so that the residual stream and long lines are straight.

const APART = 12;          // between two nodes of a layer

// Each node wants to stand where its lines are straight; long lines and round nodes (the residual stream) come first.
export function placeColumns(layers, lines) {
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

// Minor lines count for nearly nothing, so that a parameter does not pull the stream aside.
function weightOf({ a, b, minor }) {
  if (minor) {
    return 0.01;
  }
  const stream = (a.bend || a.round) && (b.bend || b.round) ? 8 : 1;
  const near = a.bend || b.bend || b.round ? 2 : 1;
  return stream * near * (a.light ? 0.02 : 1);
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

export function shiftToZero(layers) {
  const all = layers.flat();
  const left = Math.min(...all.map((node) => node.x - node.w / 2));
  for (const node of all) {
    node.x -= left;
  }
  return Math.max(...all.map((node) => node.x + node.w / 2));
}

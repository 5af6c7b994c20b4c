// The rows of the map: the y of each node, the lines' ways from layer to layer, and the places where lines of one value part.

const GAP = 22;            // between two layers
const TRACK = 7;           // between two horizontal lines in the same gap

// Layers below each other; a gap grows with the number of horizontal lines that must not lie on each other.
export function placeRows(layers, lines) {
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

// Down, across, down; into a round node from the side, if nothing stands in the way.
export function route(line, layers) {
  const { a, b } = line;
  const x1 = a.x + line.aDx;
  const x2 = b.x + (line.bDx ?? (Math.sign(a.x - b.x) * (b.round || b.w)) / 4);
  const y1 = a.bend ? a.rowTop : a.y + (a.round || a.h);           // out of the circle, behind the pictures below it
  const y2 = b.bend ? b.rowTop : b.y;
  const half = (b.round ? b.round : b.w) / 2;
  if ((b.round && Math.abs(x1 - x2) > b.round) || (line.minor && !b.bend && Math.abs(x1 - b.x) > b.w / 2 + 4)) {
    const clear = layers[b.layer].every((node) => node === b || node.value === line.value
      || Math.max(x1, b.x) < node.x - node.w / 2 - 4 || Math.min(x1, b.x) > node.x + node.w / 2 + 4);
    if (clear) {
      const side = b.x + Math.sign(x1 - b.x) * half;
      const middle = b.y + (b.round ? half : b.h / 2);
      return [[x1, y1], [x1, middle], [side, middle]];
    }
  }
  if (!bent(line)) {
    return [[x1, y1], [x2, y2]];
  }
  return [[x1, y1], [x1, line.trackY], [x2, line.trackY], [x2, y2]];
}

// Where lines of one value part: backward, the gradients meet there and are added.
export function findFans(lines) {
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
      const half = a.bend || a.port ? 4 : a.w / 2;          // words about the sum stand beside the box, not on it
      fans.push({ value, x: a.x + aDx, y, right: half - aDx + 6, branches: group.map((line) => [...line.consumers]) });
    }
  }
  return fans;
}

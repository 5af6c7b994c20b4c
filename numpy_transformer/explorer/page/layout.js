// The map's boxes and lines: which ops and groups are visible, nested layouts from the inside out, and ports where a line crosses
// the border of an unfolded group.

import { edgesOf, findSideEdges, hasMask, inputLabel, isRound, portsOf, visibleGraph } from "explorer/flows";
import { arrange } from "explorer/graph_layers";
import { lookup } from "explorer/lookup";
import { t } from "explorer/strings";
import { numbersSize } from "explorer/box_numbers";
import { thumbnailSize, valueOfBox } from "explorer/thumbnails";

const PAD = 8;
const TITLE = 24;
const SIZE = { op: 26, group: 28, small: 22, round: 22, input: 26 };        // heights of a label
const APART = 4;                      // between the pictures of a value and of its gradient, and below them

// folded: the ids of folded groups; measure(text, small): a width in pixels; opened: the box that shows its numbers, or null;
// switches(item): the width of the switches beside its name. // Returns {width, height, boxes, lines, fans}.
export function layOut(doc, folded, measure, { opened = null, switches = () => 0 } = {}) {
  const graph = visibleGraph(doc);
  const inside = layGroup("", { doc, look: lookup(doc), folded, measure, graph, opened, switches }, new Set());
  const scene = { boxes: inside.boxes, lines: inside.lines, fans: inside.fans };
  const margin = 6;
  move(scene, margin, margin);
  return { ...scene, width: inside.width + 2 * margin, height: inside.height + 2 * margin };
}

// side: values that enter this group from the left (the encoder's memory), not from above.
function layGroup(group, context, side) {
  const { look, folded, graph } = context;
  const members = look.children(group);
  const unfolded = (id) => look.group(id) && !folded.has(id);
  const edges = edgesOf(group, context);
  const sideEdges = group === "" || !edges.some((edge) => edge.port) ? findSideEdges(edges, look) : [];
  const nodes = [];
  const inner = new Map();
  for (const member of members) {
    if (unfolded(member.id)) {
      const fromSide = new Set(sideEdges.filter((edge) => edge.to === member.id).map((edge) => edge.value.id));
      const box = layGroup(member.id, context, fromSide);
      inner.set(member.id, box);
      nodes.push({ id: member.id, w: box.width, h: box.height, tie: 0 });
    } else {
      nodes.push({ id: member.id, ...sizeOf(member, context), tie: 0 });
    }
  }
  for (const flow of graph.filter((other) => !other.producer && other.home === group)) {
    const label = { w: context.measure(inputLabel(flow.value), true) + 18, h: SIZE.input };
    nodes.push({ id: flow.value.id, ...withPictures(label, flow.value.id, context), input: flow, tie: flow.shared ? 1 : 0, light: true });
  }
  for (const [id, pin] of portsOf(edges)) {
    nodes.push({ id, w: 2, h: 0, pin, port: true, tie: side.has(id.slice(3)) ? -2 : 0 });
  }
  const drawn = edges.filter((edge) => !sideEdges.includes(edge));
  const placed = arrange(nodes, drawn.map((edge) => ({
    value: edge.value.id, from: edge.from, to: edge.to, consumers: edge.ops, tie: edge.shared ? 1 : -1,
    minor: edge.shared,
    fromDx: leavesAt(edge, nodes) ?? portOffset(inner.get(edge.from), "out", edge),
    toDx: portOffset(inner.get(edge.to), "in", edge),
  })));
  return assemble(group, context, { nodes, placed, inner, sideEdges, side });
}

// A shared parameter's lines leave near the right end of its box, so that the box does not widen the map.
function leavesAt(edge, nodes) {
  const from = edge.shared && nodes.find((node) => node.id === edge.from && node.input);
  return from ? from.w / 2 - 10 : null;
}

function portOffset(box, direction, edge) {
  return box ? box.ports[direction].get(edge.value.id) ?? null : null;
}

function sizeOf(item, context) {
  return withPictures(sizeOfLabel(item, context), item.id, context);
}

// A box with its pictures below the label: the value, and the gradient beside it.
function withPictures(box, id, { doc, opened }) {
  const value = valueOfBox(doc, id);
  const picture = thumbnailSize(value);
  if (!picture) {
    return box;
  }
  const numbers = id === opened ? numbersSize(value, picture) : null;
  if (numbers) {
    return { ...box, w: Math.max(box.w, numbers.all + 14), h: box.h + numbers.allHeight + APART, label: box.h, picture: numbers };
  }
  const width = value.has_gradient ? 2 * picture.width + APART : picture.width;
  return { ...box, w: Math.max(box.w, width + (box.round ? 0 : 14)), h: box.h + picture.height + APART + (box.round ? 1 : 3),
           label: box.h, picture: { ...picture, all: width } };
}

function sizeOfLabel(item, context) {
  const { look, measure } = context;
  const switches = context.switches(item);
  if (look.group(item.id)) {
    return { w: Math.max(110, measure(item.label) + 44 + switches), h: SIZE.group };
  }
  if (isRound(item)) {
    return { w: SIZE.round, h: SIZE.round, round: SIZE.round };
  }
  if (item.kind === "reshape" || item.kind === "select") {
    return { w: measure(item.label, true) + 16, h: SIZE.small };
  }
  const masked = switches || (hasMask(item) ? measure(t("map.mask"), true) + 6 : 0);
  const marks = Object.keys(item.parameters ?? {}).length;
  return { w: Math.max(48, measure(item.label) + 22 + masked + 9 * Math.min(3, marks)), h: SIZE.op };
}

// Everything of a group in its own coordinates, with a frame and a title unless it is the whole step.
function assemble(group, context, { nodes, placed, inner, sideEdges, side }) {
  const { look, measure } = context;
  const framed = group !== "";
  const item = look.group(group);
  const pad = framed ? PAD : 0;
  const top = framed ? TITLE : 0;
  const boxes = [];
  const isEnd = (node) => !node.bend && !node.port && !inner.has(node.id);
  const lines = placed.lines.map(({ value, consumers, points, a, b }) => ({ value, consumers, points, first: isEnd(a), last: isEnd(b) }));
  const fans = [...placed.fans];
  for (const node of nodes) {
    const x = node.x - node.w / 2;
    if (inner.has(node.id)) {
      const box = inner.get(node.id);
      move(box, x, node.y);
      boxes.push(...box.boxes);
      lines.push(...box.lines);
      fans.push(...box.fans);
    } else if (!node.port) {
      const { y, w, h, label = h, picture = null } = node;
      boxes.push({ id: node.id, x, y, w, h, label, picture, parent: group, type: typeOf(node, look) });
    }
  }
  for (const edge of sideEdges) {
    lines.push(sideLine(edge, nodes, inner));
  }
  const ports = nodes.filter((node) => node.port);
  for (const port of ports.filter((other) => side.has(other.id.slice(3)))) {
    const points = [[-pad, port.y], [port.x, port.y]];
    lines.push({ value: port.id.slice(3), consumers: consumersOf(placed.lines, port), points });
  }
  const scene = { boxes, lines, fans };
  const titleX = titlePlace(ports, framed ? measure(item.label) + 20 + context.switches(item) : 0, side);
  const width = Math.max(placed.width + 2 * pad, framed ? titleX + measure(item.label) + 16 + pad + context.switches(item) : 0);
  const height = placed.height + top + pad * (framed ? 1 : 0);
  const shift = pad + Math.max(0, (width - placed.width - 2 * pad) / 2) * (ports.length ? 0 : 1);
  move(scene, shift, top);
  if (framed) {
    const place = { x: 0, y: 0, w: width, h: height, titleX };
    scene.boxes.unshift({ id: group, parent: item.parent || "", type: "frame", depth: look.ancestors(group).length, ...place });
    closePorts(scene, ports, { shift, top, height, placed, side });
  }
  const offsets = { in: new Map(), out: new Map(), left: new Map() };
  for (const port of ports) {
    const value = port.id.replace(/^(in|out):/, "");
    offsets[port.pin === "first" ? "in" : "out"].set(value, port.x + shift - width / 2);
    if (side.has(value) && port.pin === "first") {
      offsets.left.set(value, port.y + top);
    }
  }
  return { ...scene, width, height, ports: offsets };
}

// Lines reach the frame itself: from its top to the ports, and from the ports to its bottom.
function closePorts(scene, ports, { shift, top, height, placed, side }) {
  for (const port of ports) {
    const value = port.id.replace(/^(in|out):/, "");
    const x = port.x + shift;
    const consumers = consumersOf(placed.lines, port);
    if (port.pin === "first" && !side.has(value)) {
      scene.lines.push({ value, consumers, points: [[x, 0], [x, port.y + top]] });
    } else if (port.pin === "last") {
      scene.lines.push({ value, consumers, points: [[x, port.y + top], [x, height]] });
    }
  }
}

function consumersOf(lines, port) {
  return new Set(lines.filter((line) => line.a === port || line.b === port).flatMap((line) => [...line.consumers]));
}

// The title stands where no line enters from above: at the left, or after a line that leaves it enough room.
function titlePlace(ports, width, side) {
  const entering = ports.filter((port) => port.pin === "first" && !side.has(port.id.slice(3))).map((port) => port.x + PAD);
  const places = [PAD, ...entering.map((x) => x + 8).sort((p, q) => p - q)];
  return places.find((place) => entering.every((x) => x < place || x > place + width)) ?? PAD;
}

function sideLine(edge, nodes, inner) {
  const from = nodes.find((node) => node.id === edge.from);
  const to = nodes.find((node) => node.id === edge.to);
  const out = inner.get(edge.from)?.ports.out.get(edge.value.id) ?? 0;
  const left = inner.get(edge.to)?.ports.left.get(edge.value.id) ?? to.h / 2;
  const y = from.y + from.h + 9;
  const lane = (from.x + from.w / 2 + to.x - to.w / 2) / 2;
  const end = [to.x - to.w / 2, to.y + left];
  return { value: edge.value.id, consumers: new Set(edge.ops), first: !inner.has(edge.from), last: !inner.has(edge.to),
           points: [[from.x + out, from.y + from.h], [from.x + out, y], [lane, y], [lane, end[1]], end] };
}

function typeOf(node, look) {
  if (node.input) {
    return node.input.shared ? "parameter" : "input";
  }
  if (look.group(node.id)) {
    return "group";
  }
  return node.round ? "round" : "op";
}

function move(scene, dx, dy) {
  for (const box of scene.boxes) {
    box.x += dx;
    box.y += dy;
  }
  for (const line of scene.lines) {
    line.points = line.points.map(([x, y]) => [x + dx, y + dy]);
  }
  for (const fan of scene.fans) {
    fan.x += dx;
    fan.y += dy;
  }
}

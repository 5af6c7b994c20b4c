// The elements of the map: frames of unfolded groups, boxes, lines, and the places where gradients are added.

import { s } from "explorer/dom";
import { hasMask, inputLabel } from "explorer/flows";
import { formatShape } from "explorer/format";
import { lookup } from "explorer/lookup";
import { linePath } from "explorer/map_lines";
import { drawSwitches, switchesWidth } from "explorer/map_switches";
import { t } from "explorer/strings";
import { thumbnailPlaces, valueOfBox } from "explorer/thumbnails";

const MARKS = 3;             // parameters shown as small squares on a box

// Returns {svg, nodes}: nodes maps an id to {element, box}. Lines and fans of the scene get their element.
export function drawMap(scene, doc, folded, switches) {
  const look = lookup(doc);
  const nodes = new Map();
  const draw = (box) => {
    const element = box.type === "frame" ? frame(box, look, doc, switches) : node(box, look, doc, switches);
    const group = look.group(box.id);
    element.setAttribute("role", "treeitem");
    element.setAttribute("tabindex", -1);
    element.setAttribute("aria-level", look.ancestors(box.id).length + 1);
    if (group) {
      element.setAttribute("aria-expanded", String(!folded.has(box.id)));
    }
    nodes.set(box.id, { element, box });
    return element;
  };
  const frames = scene.boxes.filter((box) => box.type === "frame");
  const others = scene.boxes.filter((box) => box.type !== "frame");
  const viewBox = `0 0 ${scene.width} ${scene.height}`;
  const svg = s("svg", { role: "tree", "aria-label": t("map.name"), class: "map", viewBox },
    markers(), frames.map(draw), scene.lines.map((line) => drawLine(line, look)), others.map(draw),
    scene.fans.map((fan) => drawFan(fan, scene.width)));
  return { svg, nodes };
}

function frame(box, look, doc, switches) {
  return s("g", { class: `frame node depth-${box.depth % 2}`, "data-op": box.id, transform: `translate(${box.x} ${box.y})` },
    s("rect", { class: "shape", width: box.w, height: box.h, rx: 8 }),
    s("text", { x: box.titleX, y: 17 }, sign("▾ "), look.group(box.id).label),
    drawSwitches(switches(look.group(box.id)), doc.hands_on?.edits ?? [], box.titleX + measure(look.group(box.id).label) + 18, 13, measure));
}

function node(box, look, doc, switches) {
  const item = look.node(box.id);
  const value = item ? null : look.value(box.id);
  const kind = item?.kind ?? box.type;
  const markAt = (i) => (box.type === "round" ? box.w / 2 + high / 2 + 3 + 9 * i : box.w - 11 - 9 * i);
  const { label: high } = box;
  const marks = Object.entries(item?.parameters ?? {}).slice(0, MARKS).map(([name, id], i) => s("rect", {
    class: "parameter", "data-parameter": id, x: markAt(i), y: high / 2 - 3, width: 6, height: 6,
  }, s("title", {}, name)));
  const own = item ? switches(item) : [];
  const beside = switchesWidth(own, measure);
  const middle = box.type === "round" ? box.w / 2 : (box.w - 9 * marks.length - beside) / 2;
  return s("g", { class: `node ${box.type} kind-${kind.replace(/\s+/g, "-")}`, "data-op": item ? box.id : null,
                  "data-value-id": item ? null : box.id, transform: `translate(${box.x} ${box.y})` },
    value && s("title", {}, value.title), shape(box),
    box.type === "group" && s("rect", { class: "progress", width: 4, height: box.h - 2, x: 1, y: 1, rx: 2 }),
    s("text", { x: middle, y: high / 2 + (box.picture && box.type !== "round" ? 1 : 0), "dominant-baseline": "central", "text-anchor": "middle" },
      box.type === "group" && sign("▸ "), label(box, item, value),
      box.type === "op" && hasMask(item) && own.length === 0 && s("tspan", { class: "mask", dx: 6 }, t("map.mask"))),
    marks, drawSwitches(own, doc.hands_on?.edits ?? [], box.w - beside - 2 - 9 * marks.length, high / 2 + 1, measure), box.picture && pictures(box, value ?? valueOfBox(doc, box.id)));
}

function pictures(box, value) {
  return thumbnailPlaces(value, box.picture, (box.w - box.picture.all) / 2, box.label + (box.type === "round" ? 3 : 0));
}

function shape(box) {
  if (box.type === "round") {
    return s("circle", { class: "shape", cx: box.w / 2, cy: box.label / 2, r: box.label / 2 - 1 });
  }
  return s("rect", { class: "shape", width: box.w, height: box.h, rx: box.type === "input" && !box.picture ? box.h / 2 : 6 });
}

function label(box, item, value) {
  if (box.type === "round") {
    return item.kind === "multiply" ? "×" : "+";
  }
  return item ? item.label : inputLabel(value);
}

function sign(text) {
  return s("tspan", { class: "sign", "aria-hidden": "true" }, text);
}

function drawLine(line, look) {
  const value = look.value(line.value);
  line.element = s("path", { class: "line", d: linePath(line), "data-line": line.value,
    "data-title": `${value.title}: ${formatShape(value.shape)}` }, s("title"));
  return line.element;
}

function drawFan(fan, width) {
  const room = measure(t("map.adds_some", { count: 1, of: 2 }), true);
  const right = fan.x + fan.right + room < width;
  const beside = fan.x - room > 10 ? { x: -10, y: 0, "text-anchor": "end" } : { x: 6 - fan.x, y: -14, "text-anchor": "start" };
  const place = right ? { x: fan.right, y: -11, "text-anchor": "start" } : beside;
  fan.text = s("text", { ...place, "dominant-baseline": "central" });
  fan.title = s("title");
  fan.element = s("g", { class: "fan", "data-fan": fan.value, transform: `translate(${fan.x} ${fan.y})` },
    s("circle", { r: 6.5 }), s("path", { d: "M-3 0H3M0 -3V3" }), fan.text, fan.title);
  return fan.element;
}

// Arrowheads, one for each color of a line.
function markers() {
  return s("defs", {}, ["line", "forward", "backward"].map((name) => s("marker", {
    id: `arrow-${name}`, class: `arrow-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
    orient: "auto-start-reverse", markerUnits: "userSpaceOnUse",
  }, s("path", { d: "M0 0.5 8 4 0 7.5Z" }))));
}

let canvas = null;

// The width of a text on the map, before its scale.
export function measure(text, small = false) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = `${small ? 13 : 15}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

// A small heatmap of one matrix as an SVG, many of which stand side by side: one diverging scale centered on 0, exact
// zeros as dots, masked cells hatched. One tab stop; the arrow keys move the cell, Enter chooses it.
// A large matrix becomes an image with one pixel for each entry, so that long texts stay quick.

import { s } from "explorer/dom";
import { colorOf, cssColor } from "explorer/colors";
import { t } from "explorer/strings";
import { shorten, widest } from "explorer/text_width";

const MOST_CELLS = 900;                       // above this number of cells, an image instead of boxes
export const LABEL_WIDTH = 10;                // of a token, in Latin letters
const FONT = 13;
const LARGE_FONT = 24;
const ROOM = 14;                              // width of all cells, in font sizes
let pictures = 0;                             // numbers the patterns, whose ids must differ on one page

/**
 * options: name (for screen readers), kind "value" or "gradient", limit (of the color scale), rows and columns (labels),
 * value(i, j), masked(i, j), ref and cell(i, j) (its index in that array), chosen [i, j] or null, large (type),
 * describe(i, j) (a sentence), choose(i, j), hover(i, j, sentence).
 */
export function smallMatrix(options) {
  const { rows, columns, name, chosen } = options;
  const font = options.large ? LARGE_FONT : FONT;
  const size = cellSize(options, font);
  const left = labelRoom(rows, size, font);
  const top = labelRoom(columns, size, font);
  const width = left + columns.length * size + 1;
  const height = top + rows.length * size + 1;
  const id = `masked-${(pictures += 1)}`;
  const svg = s("svg", { class: "small-matrix", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0,
    role: "application", "aria-roledescription": t("heatmap.role"), "aria-label": name });
  const grid = s("g", { transform: `translate(${left},${top})` });
  svg.append(hatching(id), grid);
  if (rows.length * columns.length <= MOST_CELLS) grid.append(...boxes(options, size, id));
  else grid.append(...image(options, size, id));
  grid.append(s("rect", { class: "frame", width: columns.length * size, height: rows.length * size, fill: "none" }));
  svg.append(...labels(rows, columns, { size, left, top, font }));
  const cursor = s("rect", { class: "cursor", width: size, height: size, fill: "none", visibility: "hidden" });
  grid.append(cursor);
  attachPointer(svg, options, { size, left, top });
  attachKeys(svg, options, { at: chosen, cursor, size });
  return svg;
}

/** Small enough for all cells to fit into the room of a small heatmap, if that leaves room for the labels. */
function cellSize({ rows, columns }, font) {
  const most = Math.max(rows.length, columns.length);
  return Math.max(4, Math.min(2.6 * font, Math.floor(font * ROOM / most)));
}

function labelRoom(labels, size, font) {
  if (size < font) return 1;
  return 0.7 * font + Math.min(LABEL_WIDTH, widest(labels)) * 0.62 * font;
}

function hatching(id) {
  const pattern = s("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { class: "hatch-ground", width: 5, height: 5 }),
    s("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 5 }));
  return s("defs", {}, pattern);
}

function boxes({ rows, columns, value, masked, kind, limit, ref, cell }, size, id) {
  const parts = [];
  rows.forEach((_, i) => columns.forEach((__, j) => {
    const number = value(i, j);
    const hidden = masked(i, j);
    const place = { x: j * size, y: i * size, width: size, height: size };
    parts.push(s("rect", { ...place, class: "cell", fill: hidden ? `url(#${id})` : cssColor(kind, number, limit),
      "data-ref": ref, "data-cell": cell(i, j).join(","), "data-value": number }));
    if (number === 0 && !hidden && size > 6) {
      parts.push(s("circle", { class: "zero", cx: (j + 0.5) * size, cy: (i + 0.5) * size, r: Math.max(1, size / 14) }));
    }
  }));
  return parts;
}


/** One pixel for each entry, enlarged by the SVG, above a hatched ground that is seen through the masked entries. */
function image({ rows, columns, value, masked, kind, limit }, size, id) {
  const canvas = document.createElement("canvas");
  canvas.width = columns.length;
  canvas.height = rows.length;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns.length, rows.length);
  rows.forEach((_, i) => columns.forEach((__, j) => {
    const color = [...colorOf(kind, value(i, j), limit), masked(i, j) ? 0 : 255];
    pixels.data.set(color, 4 * (i * columns.length + j));
  }));
  context.putImageData(pixels, 0, 0);
  const frame = { width: columns.length * size, height: rows.length * size };
  return [s("rect", { ...frame, fill: `url(#${id})` }),
    s("image", { ...frame, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" })];
}

function labels(rows, columns, { size, left, top, font }) {
  if (size < font) return [];
  const look = { class: "label", "font-size": font, "dominant-baseline": "central" };
  const texts = rows.map((label, i) => s("text", { ...look, x: left - 0.4 * font, y: top + (i + 0.5) * size,
    "text-anchor": "end" }, shorten(label, LABEL_WIDTH)));
  columns.forEach((label, j) => texts.push(s("text", { ...look,
    transform: `translate(${left + (j + 0.5) * size},${top - 0.4 * font}) rotate(-90)` }, shorten(label, LABEL_WIDTH))));
  return texts;
}
function attachPointer(svg, { rows, columns, describe, choose, hover }, { size, left, top }) {
  const cellAt = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const j = Math.floor(((event.clientX - box.left) * scale - left) / size);
    const i = Math.floor(((event.clientY - box.top) * scale - top) / size);
    return i >= 0 && j >= 0 && i < rows.length && j < columns.length ? [i, j] : null;
  };
  svg.addEventListener("pointermove", (event) => {
    const at = cellAt(event);
    if (at) hover(...at, describe(...at));
    else hover(null);
  });
  svg.addEventListener("pointerleave", () => hover(null));
  svg.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (at) choose(...at);
  });
}

function attachKeys(svg, { rows, columns, describe, choose, hover }, { at, cursor, size }) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  let [i, j] = at || [0, 0];
  const show = (visible) => {
    cursor.setAttribute("x", j * size);
    cursor.setAttribute("y", i * size);
    cursor.setAttribute("visibility", visible ? "visible" : "hidden");
  };
  show(Boolean(at));
  svg.addEventListener("focus", () => { show(true); hover(i, j, describe(i, j)); });
  svg.addEventListener("blur", () => show(Boolean(at)));
  svg.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (move) {
      i = Math.max(0, Math.min(rows.length - 1, i + move[0]));
      j = Math.max(0, Math.min(columns.length - 1, j + move[1]));
      show(true);
      hover(i, j, describe(i, j));
    } else if (event.key === "Enter" || event.key === " ") {
      choose(i, j);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
}

// Paints matrices on canvases of one pixel for each cell, which the style sheet enlarges. The colors are looked up in a table,
// which is made once for each theme.

import { colorOf, theme } from "explorer/colors";

const SIZE = 255; // colors of a table; the one in the middle stands for 0
const tables = new Map();

// kind: "value", "gradient", or "gradient root", whose colors follow the square root of the numbers.
function tableOf(kind) {
  const key = `${kind} ${theme()}`;
  if (!tables.has(key)) {
    const [scale, root] = kind.split(" ");
    const table = new Uint8ClampedArray(4 * SIZE);
    for (let i = 0; i < SIZE; i += 1) {
      const x = (2 * i) / (SIZE - 1) - 1;
      table.set([...colorOf(scale, root ? Math.sign(x) * Math.sqrt(Math.abs(x)) : x, 1), 255], 4 * i);
    }
    tables.set(key, new Uint32Array(table.buffer));
  }
  return tables.get(key);
}

export function matrixCanvas(rows, columns, attributes = {}) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  for (const [name, value] of Object.entries(attributes)) canvas.setAttribute(name, value);
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  return { canvas, context, image, pixels: new Uint32Array(image.data.buffer) };
}

// Signed codes, -127 to 127, of numbers code / 127 * scale; the colors end at -limit and limit.
export function paintSigned({ context, image, pixels }, { codes, scales, limit }, frame, kind) {
  const table = tableOf(kind);
  const start = frame * pixels.length;
  const factor = limit > 0 ? scales[frame] / limit : 0;
  for (let i = 0; i < pixels.length; i += 1) pixels[i] = table[127 + Math.round(codes[start + i] * factor)];
  context.putImageData(image, 0, 0);
}

// Codes 0 to 255 of numbers from 0 to 1.
export function paintShares({ context, image, pixels }, codes, start) {
  const table = tableOf("value");
  for (let i = 0; i < pixels.length; i += 1) pixels[i] = table[127 + Math.round((codes[start + i] * 127) / 255)];
  context.putImageData(image, 0, 0);
}

// A canvas for drawings: its context draws in CSS pixels.
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// A color of the style sheet, such as "--ink-2".
export function cssVariable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The scale of a kind as a bar between its ends; `lowest` is -1, or 0 for shares.
export function paintScale({ context, image, pixels }, kind, lowest = -1) {
  const table = tableOf(kind);
  for (let i = 0; i < pixels.length; i += 1) {
    const x = lowest + ((1 - lowest) * i) / (pixels.length - 1);
    pixels[i] = table[Math.round((x + 1) * 127)];
  }
  context.putImageData(image, 0, 0);
}

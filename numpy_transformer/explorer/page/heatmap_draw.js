// Draws one window of an array on a canvas: cells in the diverging scale, exact zeros with a dot, -inf hatched, NaN
// crossed out, labels at the edges. Only drawing: what is shown, and what a key does, is heatmap.js's part.

import { colorOf, inkOn } from "explorer/colors";
import { shortNumber } from "explorer/format";
import { shorten, widest } from "explorer/text_width";

const NUMBERS_FROM = 26; // width in pixels from which a cell may have room for its number
const SMALLEST = 9.5; // pixels of a number's type
const DOTS_FROM = 5;
const LABEL_WIDTH = 9; // in Latin letters

// Where everything stands: widths of the gutters and the size of a cell, for a window that has to fit into `width`.
export function layoutFor({
  width,
  rows,
  columns,
  rowLabels,
  columnLabels,
  fontSize,
  minCell,
  maxCell,
  tallest,
  maxHeight,
}) {
  const left = rowLabels.length ? Math.ceil(Math.min(widest(rowLabels), LABEL_WIDTH) * fontSize * 0.6) + 8 : 1;
  const slanted = widest(columnLabels) > 2;
  const letters = slanted ? Math.min(widest(columnLabels), LABEL_WIDTH) * 0.5 : 1;
  const top = columnLabels.length ? Math.ceil(letters * fontSize + 8) : 1;
  const right = slanted ? fontSize * 2 : 1;
  const fit = Math.floor((width - left - right) / columns);
  const cellWidth = Math.max(minCell, Math.min(maxCell, fit));
  const share = Math.max(minCell, Math.floor(maxHeight / rows));
  const cellHeight = Math.max(minCell, Math.min(cellWidth, tallest, share));
  return {
    left,
    top,
    slanted,
    fontSize,
    cellWidth,
    cellHeight,
    width: left + columns * cellWidth + right,
    height: top + rows * cellHeight + 1,
  };
}

// Sets the canvas to its size in device pixels and returns a context that draws in CSS pixels.
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export function drawCells(context, layout, { rows, columns, read, kind, limit, largest = limit, style, texts }) {
  const write = texts || numberTexts(context, layout, { rows, columns, read, kind, largest, style });
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const look = { kind, limit, style, text: write ? write(row, column) : null, plain: Boolean(texts) };
      drawCell(context, boxOf(layout, row, column), read(row, column), look);
    }
  }
}

// The numbers in the cells, all with as many decimals as the largest of them needs, in smaller type if they would not fit
// otherwise; null if they could not be read then.
function numberTexts(context, layout, { rows, columns, read, kind, largest, style }) {
  if (kind === "mask" || layout.cellWidth < NUMBERS_FROM || layout.cellHeight < style.fontSize + 3) return null;
  const textOf = (number) => shortNumber(number, largest);
  context.font = style.font;
  let widestText = 1;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const number = read(row, column);
      if (Number.isFinite(number)) widestText = Math.max(widestText, context.measureText(textOf(number)).width);
    }
  }
  const size = style.fontSize * Math.min(1, (layout.cellWidth - 4) / widestText);
  if (size < SMALLEST * style.scale) return null;
  style.numbers = style.font.replace(/^[\d.]+px/, `${size}px`);
  return (row, column) => textOf(read(row, column));
}

export function boxOf(layout, row, column) {
  return {
    x: layout.left + column * layout.cellWidth,
    y: layout.top + row * layout.cellHeight,
    width: layout.cellWidth,
    height: layout.cellHeight,
  };
}

function drawCell(context, box, number, { kind, limit, style, text, plain }) {
  const gap = box.width >= 8 ? 1 : 0;
  const inner = { x: box.x, y: box.y, width: box.width - gap, height: box.height - gap };
  if (plain) {
    fillBox(context, inner, style.panel);
    write(context, inner, text, style.text, style.font);
    return;
  }
  if (Number.isNaN(number)) {
    fillBox(context, inner, style.panel);
    cross(context, inner, style.alarm);
    return;
  }
  if (number === -Infinity || kind === "mask") {
    fillBox(context, inner, style.panel);
    if (number === -Infinity || number === 0) hatch(context, inner, style.muted);
    else if (box.width >= 14) write(context, inner, "✓", style.muted, style.font);
    return;
  }
  const color = colorOf(kind, number, limit);
  fillBox(context, inner, css(color));
  if (number === 0) {
    if (box.width >= DOTS_FROM) dot(context, inner, style.muted);
  } else if (text !== null) {
    write(context, inner, text, css(inkOn(color)), style.numbers);
  }
}

function css(color) {
  return `rgb(${color.join(", ")})`;
}

function fillBox(context, box, color) {
  context.fillStyle = color;
  context.fillRect(box.x, box.y, box.width, box.height);
}

function dot(context, box, color) {
  context.fillStyle = color;
  context.beginPath();
  context.arc(box.x + box.width / 2, box.y + box.height / 2, Math.max(Math.min(1.6, box.width / 5), Math.min(box.width, box.height) / 16), 0, 2 * Math.PI);
  context.fill();
}

function cross(context, box, color) {
  context.strokeStyle = color;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(box.x, box.y);
  context.lineTo(box.x + box.width, box.y + box.height);
  context.moveTo(box.x + box.width, box.y);
  context.lineTo(box.x, box.y + box.height);
  context.stroke();
}

function hatch(context, box, color) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.clip();
  context.strokeStyle = color;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  const step = 5;
  const first = Math.floor((box.x - box.y - box.height) / step) * step; // one pattern across neighboring cells
  for (let offset = first; offset < box.x + box.width - box.y; offset += step) {
    context.moveTo(offset + box.y, box.y);
    context.lineTo(offset + box.y + box.height, box.y + box.height);
  }
  context.stroke();
  context.restore();
}

function write(context, box, text, color, font) {
  context.fillStyle = color;
  context.font = font;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(shorten(text, LABEL_WIDTH), box.x + box.width / 2, box.y + box.height / 2 + 0.5, box.width - 2);
}

// Labels that would overlap are left out at a regular distance; the first always stands.
export function drawLabels(context, layout, { rowLabels, columnLabels, style, strong }) {
  context.font = style.font;
  context.textBaseline = "middle";
  const everyRow = Math.max(1, Math.ceil((layout.fontSize + 1) / layout.cellHeight));
  rowLabels.forEach((label, row) => {
    if (row % everyRow !== 0 && strong.row !== row) return;
    context.textAlign = "right";
    context.fillStyle = strong.row === row ? style.text : style.muted;
    context.fillText(shorten(label, LABEL_WIDTH), layout.left - 5, layout.top + (row + 0.5) * layout.cellHeight);
  });

  const needed = layout.slanted ? 1.4 * layout.fontSize : layout.fontSize * 0.7 * Math.max(1, widest(columnLabels)) + 4;
  const everyColumn = Math.max(1, Math.ceil(needed / layout.cellWidth));
  columnLabels.forEach((label, column) => {
    if (column % everyColumn !== 0) return;
    context.save();
    context.translate(layout.left + (column + 0.5) * layout.cellWidth, layout.top - 5);
    context.textAlign = layout.slanted ? "left" : "center";
    if (layout.slanted) context.rotate(-Math.PI / 4);
    context.fillStyle = strong.column === column ? style.text : style.muted;
    context.fillText(shorten(label, LABEL_WIDTH), 0, layout.slanted ? 0 : -layout.fontSize / 2);
    context.restore();
  });
}

// A ring around a cell: on light and dark cells alike, so it has a light line inside a dark one.
export function ring(context, layout, row, column, { outer, inner, width }) {
  const box = boxOf(layout, row, column);
  const gap = box.width >= 8 ? 1 : 0;
  context.lineWidth = width + 1.5;
  context.strokeStyle = inner;
  context.strokeRect(box.x - 0.5, box.y - 0.5, box.width - gap + 1, box.height - gap + 1);
  context.lineWidth = width;
  context.strokeStyle = outer;
  context.strokeRect(box.x - 0.5, box.y - 0.5, box.width - gap + 1, box.height - gap + 1);
}

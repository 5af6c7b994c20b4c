// What part of an array a heatmap shows: which axis runs along its rows and which along its columns, where the other
// axes are held, and which window of the rows and columns fits. Pure functions: no page, no store.

import { axisName, t } from "explorer/strings";

// The last two axes are drawn, the others are held at their first entry unless `fixed` says where.
export function defaultView(shape, fixed = {}) {
  const rank = shape.length;
  const view = { rows: null, columns: null, fixed: { ...fixed } };
  if (rank >= 1) view.columns = rank - 1;
  if (rank >= 2) view.rows = rank - 2;
  return view;
}

// Axes that a reader can choose an entry of: those that are neither rows nor columns and are longer than 1.
export function heldAxes(view, shape) {
  return shape.map((_, axis) => axis).filter((axis) => axis !== view.rows && axis !== view.columns && shape[axis] > 1);
}

export function sizeOf(view, shape) {
  const rows = view.rows === null ? 1 : shape[view.rows];
  const columns = view.columns === null ? 1 : shape[view.columns];
  return { rows, columns };
}

// The full index of the cell in this row and column.
export function cellIndex(view, shape, row, column) {
  return shape.map((size, axis) => {
    if (axis === view.rows) return row;
    if (axis === view.columns) return column;
    return Math.min(view.fixed[axis] || 0, size - 1);
  });
}

// Row and column of a full index; null if it lies in another slice than the one drawn.
export function placeOf(view, shape, index) {
  const here = cellIndex(view, shape, index[view.rows], index[view.columns]);
  const inside = here.every((i, axis) => axis === view.rows || axis === view.columns || i === index[axis]);
  if (!inside || index.length !== shape.length) return null;
  return { row: view.rows === null ? 0 : index[view.rows], column: view.columns === null ? 0 : index[view.columns] };
}

// The view that shows a given entry: the same rows and columns, the other axes held where the entry lies.
export function viewShowing(view, shape, index) {
  const fixed = { ...view.fixed };
  heldAxes(view, shape).forEach((axis) => {
    fixed[axis] = index[axis];
  });
  return { ...view, fixed };
}

// What to ask the store for: for each axis a number or [start, stop].
export function requestOf(view, shape, window) {
  return shape.map((size, axis) => {
    if (axis === view.rows) return [window.row, window.row + window.rows];
    if (axis === view.columns) return [window.column, window.column + window.columns];
    return Math.min(view.fixed[axis] || 0, size - 1);
  });
}

// The answer's data come in the order of the array's axes: a reader that swaps rows and columns is served here.
export function readerOf(view, window, data) {
  if (view.rows !== null && view.columns !== null && view.rows > view.columns) {
    return (row, column) => data[column * window.rows + row];
  }
  return (row, column) => data[row * window.columns + column];
}

// A window of at most `count` of `size` entries that contains `wanted`, in steps of the window's own width.
export function windowAround(wanted, size, count) {
  const width = Math.min(size, Math.max(1, count));
  const start = Math.min(Math.floor(wanted / width) * width, size - width);
  return { start, width };
}

// The index of an entry of the flat array, in C order.
export function unravel(flat, shape) {
  const index = [];
  let rest = flat;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    index.unshift(rest % shape[axis]);
    rest = Math.floor(rest / shape[axis]);
  }
  return index;
}

// The place of the entry that is largest in size, among those that are wanted, in the flat array.
export function largestAt(data, wanted = () => true) {
  let best = -1;
  data.forEach((number, flat) => {
    if (wanted(flat) && (best < 0 || Math.abs(number) > Math.abs(data[best]))) best = flat;
  });
  return Math.max(0, best);
}

// "token" and "token" cannot be told apart in a menu; such twins get their number.
export function axisTitles(axes) {
  return axes.map((axis, i) => {
    const twin = axes.some((other, j) => j !== i && other.name === axis.name);
    return twin ? t("axis.twin", { name: axisName(axis), axis: i }) : axisName(axis);
  });
}

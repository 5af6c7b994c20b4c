// A heatmap of one array: a window of two of its axes on a canvas, with a cell that the pointer, the arrow keys or
// another heatmap can point at. Used wherever the page shows numbers as colors.
//
//   const map = heatmap({ app, ref, view, onPoint, onChoose });
//   panel.append(map.element);
//   map.show(view);  map.point(index);  map.light([index, ...]);
//
// Only what is drawn is asked from the store, so an array of any size opens at once.

import { h } from "explorer/dom";
import { t } from "explorer/strings";
import { axesOf, batchOf, tokensOfAxis } from "explorer/refs";
import { cellIndex, defaultView, placeOf, readerOf, requestOf, sizeOf, windowAround } from "explorer/array_view";
import { boxOf, drawCells, drawLabels, layoutFor, prepare, ring } from "explorer/heatmap_draw";
import { kindOf, movedCursor, styleOf } from "explorer/heatmap_look";
import { tableOf } from "explorer/heatmap_table";
import { isNoise, largestIn } from "explorer/noise";
import { limitOf } from "explorer/scales";
import { windowControls } from "explorer/heatmap_window";

const drawn = new Set();

export function heatmap(options) {
  return new Heatmap(options);
}

// Theme or type size changed: every heatmap that still stands on the page is drawn again.
export function redrawAll() {
  drawn.forEach((map) => (map.element.isConnected ? map.render() : drawn.delete(map)));
}

class Heatmap {
  constructor({
    app,
    ref,
    doc,
    title,
    view,
    limit,
    labels = true,
    maxHeight = 420,
    minCell = 6,
    maxCell = 44,
    ...calls
  }) {
    Object.assign(this, { app, ref, labels, maxHeight, minCell, maxCell, ...calls }); // onPoint, onChoose, onDrawn, onWindow
    this.doc = doc || app.state.get().doc; // the document before the edits can be drawn, too
    this.info = app.store.info(ref, this.doc);
    this.shape = this.info.shape;
    this.kind = kindOf(this.info, ref);
    this.noise = isNoise(app.store, this.doc, ref, this.info);
    this.limit = limit || limitOf(app.store, this.doc, ref, app.state.get().common);
    this.view = view || defaultView(this.shape);
    this.corner = { row: 0, column: 0 };
    this.cursor = { row: 0, column: 0 };
    this.pointed = null;
    this.chosen = null;
    this.lit = [];
    this.ready = new Promise((resolve) => {
      this.isReady = resolve;
    }); // once it has been drawn
    this.build(title || ref);
  }

  build(title) {
    this.cells = h("canvas", { class: "heatmap-cells", "aria-hidden": "true" });
    this.rings = h("canvas", {
      class: "heatmap-rings",
      tabindex: "0",
      role: "application",
      "aria-roledescription": t("heatmap.role"),
      "aria-label": t(this.shape.length ? "heatmap.label" : "heatmap.single", { title, shape: this.shape.join(" × ") }),
      "data-ref": this.ref,
    });
    this.stage = h("div", { class: "heatmap-stage" }, this.cells, this.rings);
    this.controls = h("div", { class: "heatmap-window" });
    this.element = h("div", { class: `heatmap heatmap-${this.kind}` }, this.stage, this.controls);
    this.listen();
    drawn.add(this);
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  listen() {
    const { rings } = this;
    rings.addEventListener("pointermove", (event) => this.pointTo(this.cellAt(event)));
    rings.addEventListener("pointerleave", () => this.pointTo(null));
    rings.addEventListener("click", (event) => this.choose(this.cellAt(event), false));
    rings.addEventListener("focus", () => this.pointTo(this.cursor));
    rings.addEventListener("blur", () => this.pointTo(null));
    rings.addEventListener("keydown", (event) => this.key(event));
  }

  resized() {
    const width = Math.floor(this.element.clientWidth);
    if (!width || width === this.width) return;
    if (!this.width) drawn.forEach((map) => map.width && !map.element.isConnected && drawn.delete(map));
    this.width = width;
    this.render();
  }

  // Another slice of the array: other axes, or another batch row or head.
  show(view) {
    const turned = view.rows !== this.view.rows || view.columns !== this.view.columns;
    this.view = view;
    if (turned) {
      this.corner = { row: 0, column: 0 };
      this.cursor = { row: 0, column: 0 };
    }
    return this.render();
  }

  async render() {
    if (!this.width) return;
    const size = sizeOf(this.view, this.shape);
    this.style = styleOf(this.element);
    this.fit(size);
    const { window } = this;
    const request = requestOf(this.view, this.shape, window);
    this.asked = request;
    const slice = await this.app.store.slice(this.ref, request, this.doc).catch((error) => this.say(error.message));
    if (!slice || this.asked !== request) return; // the reader has moved on meanwhile
    this.read = readerOf(this.view, window, slice.data);
    this.draw();
    this.controls.replaceChildren(...windowControls(this, size));
    if (this.onDrawn) this.onDrawn();
    this.isReady();
  }

  // A page whose server has ended, or a saved page that leaves out large arrays, says so in the place of the numbers.
  say(sentence) {
    this.controls.replaceChildren(h("p", { class: "note" }, sentence));
    this.isReady();
  }

  // How many rows and columns fit, and where the window lies.
  fit(size) {
    const { fontSize, scale } = this.style;
    const minCell = this.minCell * scale;
    const labelRoom = this.labels ? fontSize * 5 : 4;
    const columns = windowAround(this.corner.column, size.columns, Math.floor((this.width - labelRoom) / minCell));
    const rows = windowAround(this.corner.row, size.rows, Math.floor(this.maxHeight / this.minCell));
    this.window = { row: rows.start, rows: rows.width, column: columns.start, columns: columns.width };
    const labels = this.labelsOf(this.window);
    this.layout = layoutFor({
      width: this.width,
      rows: rows.width,
      columns: columns.width,
      ...labels,
      fontSize,
      minCell,
      maxCell: this.maxCell * scale,
      tallest: 30 * scale,
      maxHeight: this.maxHeight * scale,
    });
  }

  labelsOf(window) {
    if (!this.labels) return { rowLabels: [], columnLabels: [] };
    const axes = axesOf(this.doc, this.ref, this.shape);
    const batch = batchOf(axes, cellIndex(this.view, this.shape, 0, 0));
    const names = (axis, start, count) => {
      if (axis === null || (axes[axis].name === "batch" && this.shape[axis] === 1)) return [];
      const tokens = tokensOfAxis(this.doc, axes[axis], batch);
      const name = (i) => (tokens && tokens[i] !== undefined ? tokens[i] || "–" : String(i)); // a target that does not count
      return Array.from({ length: count }, (_, i) => name(start + i));
    };
    return {
      rowLabels: names(this.view.rows, window.row, window.rows),
      columnLabels: names(this.view.columns, window.column, window.columns),
    };
  }

  draw() {
    const { layout, window, style } = this;
    const context = prepare(this.cells, layout.width, layout.height);
    const texts = this.info.dtype === "int32" ? (row, column) => String(this.read(row, column)) : null;
    drawCells(context, layout, {
      rows: window.rows,
      columns: window.columns,
      read: this.read,
      kind: this.kind,
      limit: this.limit,
      largest: largestIn(this.info) || this.limit,
      style,
      texts: this.noise ? () => "≈0" : texts,
    });
    drawLabels(context, layout, { ...this.labelsOf(window), style, strong: {} });
    this.drawRings();
  }

  drawRings() {
    if (!this.layout) return;
    const { layout, style } = this;
    const context = prepare(this.rings, layout.width, layout.height);
    const dark = { outer: style.text, inner: style.panel };
    this.lit.forEach((index) => this.ringAt(context, index, { outer: style.light, inner: style.panel, width: 2 }));
    this.ringAt(context, this.chosen, { ...dark, width: 2.5 });
    this.ringAt(context, this.pointed, { ...dark, width: 1.2 });
  }

  ringAt(context, index, look) {
    const place = index && placeOf(this.view, this.shape, index);
    if (!place) return;
    const row = place.row - this.window.row;
    const column = place.column - this.window.column;
    const inside = row >= 0 && row < this.window.rows && column >= 0 && column < this.window.columns;
    if (inside) ring(context, this.layout, row, column, look);
  }

  // Pointing and lighting from outside; null takes the ring away.
  point(index) {
    this.pointed = index;
    this.drawRings();
  }

  mark(index) {
    this.chosen = index;
    const place = index && placeOf(this.view, this.shape, index);
    if (place) this.cursor = place;
    if (place && !(this.window && this.contains(place))) this.moveWindowTo(place);
    else this.drawRings();
  }

  light(indexes) {
    this.lit = indexes;
    this.drawRings();
  }

  contains({ row, column }) {
    const { window } = this;
    const inRows = row >= window.row && row < window.row + window.rows;
    return inRows && column >= window.column && column < window.column + window.columns;
  }

  // The heatmaps of one row show the same window, so its owner hears of a move.
  moveWindowTo(corner) {
    if (this.onWindow) this.onWindow(corner);
    return this.showWindow(corner);
  }

  showWindow(corner) {
    this.corner = { ...corner };
    return this.render();
  }

  cellAt(event) {
    const { layout, window } = this;
    const bounds = this.rings.getBoundingClientRect();
    const column = Math.floor((event.clientX - bounds.left - layout.left) / layout.cellWidth);
    const row = Math.floor((event.clientY - bounds.top - layout.top) / layout.cellHeight);
    if (row < 0 || column < 0 || row >= window.rows || column >= window.columns) return null;
    return { row: row + window.row, column: column + window.column };
  }

  pointTo(place) {
    const index = place ? cellIndex(this.view, this.shape, place.row, place.column) : null;
    this.point(index);
    if (this.onPoint) this.onPoint(index);
  }

  // The panel is told whether a key chose the cell: the focus then follows to where the number is spelled out.
  choose(place, byKey) {
    if (!place) return;
    this.cursor = place;
    if (this.onChoose) this.onChoose(cellIndex(this.view, this.shape, place.row, place.column), byKey);
  }

  async key(event) {
    const size = sizeOf(this.view, this.shape);
    const moved = movedCursor(event.key, this.cursor, size, this.window);
    if (event.key === "Enter" || event.key === " ") this.choose(this.cursor, true);
    else if (!moved) return;
    event.preventDefault();
    event.stopPropagation(); // the time line's keys are arrows, too
    if (!moved) return;
    this.cursor = moved;
    if (!this.contains(moved)) await this.moveWindowTo(moved);
    this.pointTo(moved);
  }

  // The number in a cell of the window, and the box on the canvas that shows it (for tests and exports).
  numberAt(index) {
    const place = placeOf(this.view, this.shape, index);
    if (!place || !this.read || !this.contains(place)) return null;
    return this.read(place.row - this.window.row, place.column - this.window.column);
  }

  boxAt(index) {
    const place = placeOf(this.view, this.shape, index);
    return boxOf(this.layout, place.row - this.window.row, place.column - this.window.column);
  }

  table() {
    return tableOf(this);
  }
}

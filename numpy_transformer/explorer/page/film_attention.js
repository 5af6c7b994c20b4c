// The attention of every layer and head as small maps, and one of them enlarged with its tokens.

import { h, replace } from "explorer/dom";
import { cssVariable, matrixCanvas, paintScale, paintShares, sized } from "explorer/film_paint";
import { t } from "explorer/strings";
import { shorten, widest } from "explorer/text_width";
import { formatCount } from "explorer/format";

const FONT = 14;
const LABEL = 8; // of a token, in Latin letters
const CELL = { least: 13, most: 28 };

export function start(root, film) {
  const layers = film.attention;
  if (layers.length === 0) {
    root.hidden = true;
    return { draw() {}, redraw() {} };
  }
  let chosen = { layer: 0, head: 0 };
  let frame = 0;
  const large = largeMap(film);
  const caption = h("h3", {});
  const sentence = h("p", { class: "note strongest" });
  const scale = matrixCanvas(1, 64, { class: "scale", "aria-hidden": "true" });
  const maps = [];
  const rows = layers.map((layer, i) => {
    const [, heads, queries, keys] = layer.shape;
    const buttons = Array.from({ length: heads }, (_, head) => {
      const map = matrixCanvas(queries, keys, { class: "map", "aria-hidden": "true" });
      const label = t("attention.choose", { layer: layer.title, head });
      const element = h("button", { type: "button", class: "map-button", "aria-label": label, title: label,
        onclick: () => choose(i, head) }, map.canvas);
      maps.push({ ...map, layer, number: i, head, element });
      return element;
    });
    return h("div", { class: "maps" }, h("h3", {}, layer.title), h("div", { class: "heads" }, buttons));
  });
  replace(root, h("h2", {}, t("attention.title")), h("div", { class: "legend" }, h("span", { class: "number" }, "0"), scale.canvas, h("span", { class: "number" }, "1")),
    h("figure", { class: "large-map" }, h("figcaption", {}, caption), large.canvas, sentence), rows, h("p", { class: "note" }, t("attention.note")));

  function choose(layer, head) {
    chosen = { layer, head };
    redraw();
  }

  function redraw() {
    paintScale(scale, "value", 0);
    caption.textContent = t("attention.chosen", { layer: layers[chosen.layer].title, head: chosen.head });
    for (const { element, number, head } of maps) {
      element.setAttribute("aria-pressed", String(number === chosen.layer && head === chosen.head));
    }
    large.redraw(layers[chosen.layer], root.clientWidth);
    draw(frame);
  }

  function draw(now) {
    frame = now;
    for (const map of maps) paintShares(map, map.layer.data, startOf(map.layer, frame, map.head));
    const layer = layers[chosen.layer];
    const start = startOf(layer, frame, chosen.head);
    large.draw(layer, start);
    const { queries, keys } = layer;
    const best = strongest(layer, start);
    const names = { query: queries[Math.floor(best / keys.length)], key: keys[best % keys.length] };
    sentence.textContent = t("attention.strongest", { ...names, weight: (layer.data[start + best] / 255).toFixed(2) });
    sentence.dataset.value = layer.data[start + best];
    const about = { layer: layer.title, head: chosen.head, step: formatCount(film.frames[frame].step) };
    large.canvas.setAttribute("aria-label", `${t("attention.describe", about)} ${sentence.textContent}`);
  }

  return { draw, redraw };
}

// The place of the largest weight; that of a token on itself does not count, unless there is no other.
function strongest({ name, data, queries, keys }, start) {
  const isCross = name.includes("cross_attention");
  let best = 0;
  let most = 0;
  for (let i = 0; i < queries.length * keys.length; i += 1) {
    const isItself = !isCross && i % keys.length === Math.floor(i / keys.length);
    if (!isItself && data[start + i] > most) {
      best = i;
      most = data[start + i];
    }
  }
  return best;
}

function startOf({ shape: [, heads, queries, keys] }, frame, head) {
  return (frame * heads + head) * queries * keys;
}

// The enlarged map: the labels are drawn once for each choice, the cells once for each frame.
function largeMap() {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  let cells = null;
  let place = null;

  function redraw({ queries, keys }, width) {
    const letter = FONT * 0.62;
    const left = Math.ceil(Math.min(LABEL, widest(queries)) * letter) + 10;
    const top = Math.ceil(Math.min(LABEL, widest(keys)) * letter) + 10;
    const cell = Math.max(1, Math.min(CELL.most, Math.floor((width - left - 2) / keys.length)));
    const cellHeight = Math.max(CELL.least, cell);
    cells = matrixCanvas(queries.length, keys.length);
    place = { left, top, width: cell * keys.length, height: cellHeight * queries.length };
    const context = sized(canvas, left + place.width + 1, top + place.height + 1);
    context.font = `${FONT}px ${cssVariable("--mono")}`;
    context.fillStyle = cssVariable("--ink-2");
    context.textBaseline = "middle";
    context.textAlign = "right";
    queries.forEach((label, i) => context.fillText(shorten(label, LABEL), left - 6, top + (i + 0.5) * cellHeight));
    context.textAlign = "left";
    const every = Math.ceil(CELL.least / cell);
    keys.forEach((label, j) => {
      if (j % every) return;
      context.save();
      context.translate(left + (j + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.fillText(shorten(label, LABEL), 0, 0);
      context.restore();
    });
    context.strokeStyle = cssVariable("--line");
    context.strokeRect(left - 0.5, top - 0.5, place.width + 1, place.height + 1);
  }

  function draw(layer, start) {
    paintShares(cells, layer.data, start);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(cells.canvas, place.left, place.top, place.width, place.height);
  }
  return { canvas, redraw, draw };
}

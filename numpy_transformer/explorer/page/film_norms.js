// The norms of the parts of the model over the frames: all weights of a block together, and all of their gradients.

import { h, replace } from "explorer/dom";
import { sharedAxis, sparkline } from "explorer/film_sparkline";
import { t } from "explorer/strings";

const WIDTH = { least: 72, most: 240, beside: 224 };          // pixels of a curve; `beside` is for names and numbers
const HEIGHT = { least: 28, most: 72, all: 480, share: 0.6 }; // `all` curves below each other, and the share of the width
const KINDS = [["weights", "--forward"], ["gradients", "--backward"]];

export function start(root, film) {
  const parts = partsOf(film.doc.parameters);
  const norms = Object.fromEntries(KINDS.map(([kind]) => [kind, parts.map((part) => jointNorms(film, kind, part.places))]));
  const lines = [];
  const rows = parts.map((part, i) => h("tr", { "data-part": part.title }, h("th", { scope: "row" }, part.title), KINDS.map(([kind, color]) => {
    const line = sparkline(norms[kind][i], sharedAxis(norms[kind].flat()), color);
    lines.push(line);
    return h("td", {}, h("div", { class: "spark", "data-kind": kind }, line.canvas, line.number));
  })));
  const heads = ["array", "weights", "gradients"].map((name) => h("th", { scope: "col" }, t(`norms.${name}`)));
  replace(root, h("h2", {}, t("norms.title")), h("p", { class: "note" }, t("norms.note")),
    h("table", { class: "norms" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));

  let shown = 0;
  function draw(frame) {
    shown = frame;
    for (const line of lines) line.draw(frame);
  }
  function redraw() {
    const width = within(WIDTH, (root.clientWidth - WIDTH.beside) / 2);
    const size = { width, height: within(HEIGHT, Math.min(HEIGHT.share * width, HEIGHT.all / parts.length)) };
    for (const line of lines) line.redraw(size);
    draw(shown);
  }
  return { draw, redraw };
}

function within({ least, most }, number) {
  return Math.round(Math.max(least, Math.min(most, number)));
}

// [{title, places: numbers of the parameters}]: the blocks, and the components outside the blocks.
function partsOf(parameters) {
  const parts = [];
  parameters.forEach(({ group, title }, i) => {
    const name = group || title.split(": ")[0];
    const known = parts.find((part) => part.title === name);
    if (known) known.places.push(i);
    else parts.push({ title: name, places: [i] });
  });
  return parts;
}

// The norm of several arrays together, for each frame: the root of the sum of the squares.
function jointNorms({ norms, frames, doc }, kind, places) {
  const count = doc.parameters.length;
  return frames.map((_, frame) => Math.hypot(...places.map((place) => norms[kind][frame * count + place])));
}

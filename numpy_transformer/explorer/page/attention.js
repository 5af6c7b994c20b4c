// The attention panel: lines between tokens, and for every head the weights and their gradients as small heatmaps.
// Layer, text, head and token are those of the chosen number (state.ref and state.index), so they stand in the address.

import { h } from "explorer/dom";
import { t } from "explorer/strings";
import { DASHES, attentionLines } from "explorer/attention_lines";
import { smallMatrix } from "explorer/small_matrix";
import { saveButton } from "explorer/svg_export";
import { drawWhen, problem, redrawer, selectField } from "explorer/panel";
import { ARRAYS, WINDOW, cellSentence, findRef, headSentences, loadLayer, maskSentences } from "explorer/attention_data";
import { notYet } from "explorer/not_yet";
import { scaleLegend } from "explorer/scale_legend";

const KIND = { weights: "value", dweights: "gradient", dscores: "gradient" };

export function start(root, app) {
  const own = { layer: 0, head: "all", shown: "weights", pinned: null };      // what the address does not say
  const draw = redrawer(root, () => build(app, own, () => draw()), problem);
  drawWhen(app, "attention", ["doc", "ref", "index", "at", "large"], draw);
}

async function build(app, own, draw) {
  const { doc } = app.state.get();
  const layers = doc.attention || [];
  if (!layers.length) return [h("p", { class: "empty" }, t("attention.none"))];
  const place = placeOf(app, own);
  const layer = await loadLayer(app, layers[place.layer], place.batch, place.start);
  own.layer = place.layer;
  if (!layer.has("weights")) return [layerField(app, place, (number) => chooseLayer(app, own, place.batch, number, [0, 0])), notYet(app, layers[place.layer].weights)];
  followAddress(app, own, place, layer);
  if (own.head !== "all" && own.head >= layer.heads) own.head = "all";
  if (own.pinned && own.pinned.at >= (own.pinned.side === "query" ? layer.queries : layer.keys).length) own.pinned = null;
  const readout = h("div", { class: "readout", role: "status", "aria-live": "polite" });
  const goTo = (name, head, i, j) => app.state.update({ ref: layer.refs[name], index: layer.cell(head, i, j) });
  const scene = { app, own, draw, layer, place, readout, goTo, large: Boolean(app.state.get().large) };
  const lines = linesFigure(scene);
  return [controls(scene), h("div", { class: "attention-row" }, lines, readout), caption(scene, lines), gallery(scene)];
}

/** Where the chosen number is, if it belongs to an attention layer; else where the reader was before. */
function placeOf(app, own) {
  const { doc, ref, index } = app.state.get();
  const found = findRef(doc, ref);
  const total = doc.attention.length;
  if (!found || !index) return { layer: found ? found.layer : Math.min(own.layer, total - 1), batch: 0, start: [0, 0], cell: null };
  const [batch, head, i, j] = index;
  const start = [i, j].map((at) => WINDOW * Math.floor(at / WINDOW));
  return { layer: found.layer, batch, start, cell: { name: found.name, head, i: i - start[0], j: j - start[1] } };
}

/** A new number that was chosen anywhere decides which array the lines show, and whose lines: those of its query. */
function followAddress(app, own, { cell }, layer) {
  const { ref, index } = app.state.get();
  const address = `${ref} ${index}`;
  if (!cell || address === own.address) return;
  own.address = address;
  own.shown = layer.has(cell.name) ? cell.name : "weights";
  if (!own.choosing) own.pinned = { side: "query", at: cell.i };
  own.choosing = false;
}

function controls({ app, own, draw, layer, place, goTo }) {
  const choose = (...chosen) => chooseLayer(app, own, ...chosen);
  const heads = [["all", t("attention.all_heads")], ...headNames(layer)];
  const arrays = ARRAYS.filter(layer.has).map((name) => [name, t(`attention.array.${name}`)]);
  const show = (name) => {
    own.shown = name;
    own.choosing = true;
    if (place.cell) goTo(name, place.cell.head, place.cell.i, place.cell.j);
    else draw();
  };
  const parts = [
    layerField(app, place, (value) => choose(Math.min(place.batch, texts(app, value) - 1), value, [0, 0])),
    selectField(t("attention.lines_of"), "attention-head", heads, own.head, (value) => { own.head = value; draw(); }),
    selectField(t("attention.show"), "attention-shown", arrays, own.shown, show),
  ];
  if (texts(app, place.layer) > 1) {
    const names = Array.from({ length: texts(app, place.layer) }, (_, i) => [i, t("attention.text", { n: i + 1 })]);
    parts.push(selectField(t("attention.batch"), "attention-batch", names, place.batch,
      (value) => choose(value, place.layer, [0, 0])));
  }
  ["queries", "keys"].forEach((side, axis) => {
    if (layer.total[axis] <= WINDOW) return;
    const start = (value) => layer.start.map((old, other) => (other === axis ? value : old));
    const field = [t(`attention.part.${side}`), `attention-${side}`, windowNames(layer.total[axis]), layer.start[axis]];
    parts.push(selectField(...field, (value) => choose(place.batch, place.layer, start(value))));
  });
  return h("div", { class: "controls" }, ...parts);
}

function layerField(app, place, choose) {
  const names = app.state.get().doc.attention.map(({ title }, i) => [i, title]);
  return selectField(t("attention.layer"), "attention-layer", names, place.layer, choose);
}

// The weights of another layer or text, at the time at which they are computed.
function chooseLayer(app, own, batch, number, start) {
  own.layer = number;
  own.pinned = null;
  own.choosing = true;
  const isFirst = batch === 0 && start.every((at) => at === 0);      // then no number needs to be chosen
  app.state.update({ ref: app.state.get().doc.attention[number].weights, index: isFirst ? null : [batch, 0, ...start] });
  app.state.update({ area: "panel" }, { replace: true });      // on a small screen, a cell would lead to its number
}

function windowNames(total) {
  return Array.from({ length: Math.ceil(total / WINDOW) }, (_, i) => [i * WINDOW,
    t("attention.window", { first: i * WINDOW, last: Math.min(total, (i + 1) * WINDOW) - 1 })]);
}

function texts(app, number) {
  return app.store.info(app.state.get().doc.attention[number].weights).shape[0];
}

function headNames(layer) {
  return Array.from({ length: layer.heads }, (_, head) => [head, t("attention.head", { n: head })]);
}

function linesFigure(scene) {
  const { app, own, layer, place, readout, goTo, large } = scene;
  const shown = layer.has(own.shown) ? own.shown : "weights";
  const heads = own.head === "all" ? headNames(layer).map(([head]) => head) : [own.head];
  const say = (side, at) => readout.replaceChildren(...readoutOf(scene, heads, side, at, shown));
  const chosen = own.pinned;
  const picture = attentionLines({
    name: t("attention.lines_name", { layer: layer.entry.title }), titles: [t("attention.queries"), t("attention.keys")],
    queries: layer.queries, keys: layer.keys, heads, large, chosen, kind: KIND[shown],
    limit: shown === "weights" ? 1 : layer.limit(shown),                       // a weight is a share of 1
    value: (head, i, j) => layer.number(shown, head, i, j), masked: layer.masked,
    sentence: (side, i) => spoken(layer, heads, side, i, shown),
    hover: (side, i) => (side ? say(side, i) : say(chosen && chosen.side, chosen && chosen.at)),
    choose: (side, i) => {
      const again = chosen && chosen.side === side && chosen.at === i;
      own.pinned = again ? null : { side, at: i };
      if (again) scene.draw();
      else goToToken(scene, heads[0], side, i, shown);
    },
  });
  say(chosen && chosen.side, chosen && chosen.at);
  picture.querySelectorAll(".token").forEach((node) => {
    node.setAttribute("data-key", `token-${node.dataset.side}-${node.dataset.token}`);
  });
  const dashed = heads.length > 1 && heads.length <= DASHES.length ? heads.join(",") : null;
  return h("div", { class: "scroll lines-scroll", "data-shown": shown, "data-dashed": dashed }, picture);
}

function caption({ layer }, lines) {
  const save = saveButton(() => t("attention.lines_name", { layer: layer.entry.title }), () => lines.firstChild);
  const { sink } = layer.entry;
  const kind = sink && lines.dataset.shown === "dscores" ? "dscores_sink" : lines.dataset.shown;
  const note = sink && t("attention.sink_note");
  return h("p", { class: "note" }, t(`attention.lines_caption.${kind}`), " ", note, " ", dashes(lines), " ", save);
}

/** How the heads' lines are told apart, where several are drawn. */
function dashes(lines) {
  const drawn = lines.dataset.dashed ? lines.dataset.dashed.split(",") : [];
  return drawn.length > 0 && t("attention.dashes", { list: drawn.map((head, n) => t(`attention.dash.${n}`, { n: head })).join(", ") });
}

/** A token that is chosen takes one to its largest number, so that the number's panel and the address follow. */
function goToToken({ layer, goTo, draw, own }, head, side, at, shown) {
  const others = side === "query" ? layer.keys : layer.queries;
  const sizes = others.map((_, other) => {
    const [i, j] = side === "query" ? [at, other] : [other, at];
    return layer.masked(head, i, j) ? -1 : Math.abs(layer.number(shown, head, i, j));
  });
  const best = sizes.indexOf(Math.max(...sizes));
  own.choosing = true;
  goTo(shown, head, ...(side === "query" ? [at, best] : [best, at]));
  draw();
}

/** All sentences about a token as one text, for screen readers. */
function spoken(layer, heads, side, at, shown) {
  const parts = heads.slice(0, 4).map((head) => {
    const text = headSentences(layer, side, at, head, shown).join(" ");
    return heads.length > 1 ? t("attention.of_head", { head, text }) : text;
  });
  return [...parts, ...maskSentences(layer, side, at, heads[0])].join(" ");
}

function readoutOf({ layer }, heads, side, at, shown) {
  if (!side) return [h("p", { class: "hint" }, t("attention.hint"))];
  const lines = heads.slice(0, 8).map((head) => {
    const title = heads.length > 1 && [h("strong", {}, t("attention.head_title", { n: head })), " "];
    return h("p", {}, title, headSentences(layer, side, at, head, shown).join(" "));
  });
  return [...lines, ...maskSentences(layer, side, at, heads[0]).map((text) => h("p", {}, text))];
}

/** One card for each head, with its weights and their two gradients, each kind on one scale for all heads. */
function gallery({ layer, place, goTo, large }) {
  const names = ARRAYS.filter(layer.has);
  const output = h("p", { class: "cell-readout", role: "status", "aria-live": "polite" }, t("attention.cell_hint"));
  const cards = headNames(layer).map(([head, title]) => h("section", { class: "head-card", "aria-label": title },
    h("h4", {}, title), names.map((name) => headFigure({ layer, place, goTo, large, output }, head, name))));
  const legends = names.map((name) => scaleLegend(t(`attention.short.${name}`), KIND[name], layer.limit(name),
    name === "weights" ? 0 : -layer.limit(name)));
  const grid = h("div", { class: "heads" }, ...cards);
  const scales = h("div", { class: "legends" }, ...legends);
  const save = saveButton(() => t("attention.heads_of", { layer: layer.entry.title }), () => grid, () => [scales]);
  return h("div", { class: "head-gallery" },
    h("h3", {}, t("attention.heads"), " ", save),
    scales, output, grid);
}

function headFigure({ layer, place, goTo, large, output }, head, name) {
  const { cell } = place;
  const here = cell && cell.name === name && cell.head === head;
  const hint = t("attention.cell_hint");
  const matrix = smallMatrix({
    name: `${t("attention.head", { n: head })}, ${t(`attention.array.${name}`)}`, kind: KIND[name], limit: layer.limit(name),
    rows: layer.queries, columns: layer.keys, large, ref: layer.refs[name],
    value: (i, j) => layer.number(name, head, i, j), masked: (i, j) => layer.masked(head, i, j),
    cell: (i, j) => layer.cell(head, i, j), chosen: here ? [cell.i, cell.j] : null,
    describe: (i, j) => cellSentence(layer, name, head, i, j),
    hover: (i, j, sentence) => { output.textContent = i === null ? hint : sentence; },
    choose: (i, j) => goTo(name, head, i, j),
  });
  matrix.setAttribute("data-key", `matrix-${head}-${name}`);
  return h("figure", { class: "head-figure" }, h("figcaption", {}, t(`attention.short.${name}`)), matrix);
}

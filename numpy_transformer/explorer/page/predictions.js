// The predictions panel: the loss of each target, the probabilities at one position with a temperature, what backward
// does with them first, and what the model would already say after each block.
// The position is that of the chosen number, if it is a logit or its gradient, so it stands in the address.

import { h } from "explorer/dom";
import { t } from "explorer/strings";
import { exists } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { bars } from "explorer/bars";
import { lensTable } from "explorer/lens";
import { notYet } from "explorer/not_yet";
import { saveButton } from "explorer/svg_export";
import { drawWhen, problem, redrawer, selectField } from "explorer/panel";
import { describe, gradientsAt, largest, logitsAt, softmax, targetsOf } from "explorer/predictions_data";
import { probabilityTable } from "explorer/probability_table";

const SHOWN = 10;                             // tokens in the list of probabilities
const MOST_POSITIONS = 60;                    // positions in the list of losses

export function start(root, app) {
  const own = { batch: 0, position: null, temperature: 1 };      // what the address does not say
  const draw = redrawer(root, () => build(app, own), problem);
  drawWhen(app, "predictions", ["doc", "ref", "index", "at", "large"], draw);
}

async function build(app, own) {
  const { doc } = app.state.get();
  if (!doc.predictions) return [h("p", { class: "hint" }, t("predictions.none"))];
  if (!exists(app.state.get(), doc.predictions.logits)) return [notYet(app, doc.predictions.logits)];
  const about = describe(app);
  readPlace(app, own, about);
  const targets = await targetsOf(app, about, own.batch);
  if (own.position === null) own.position = firstOf(targets);
  const scene = { app, own, about, targets, here: targets[own.position], goTo: goTo(app, own, about, targets) };
  return [
    controls(scene),
    h("div", { class: "prediction-columns" }, lossList(scene), await probabilities(scene)),
    await lensTable(scene),
  ];
}

/** Follows the chosen number, if it is a logit; keeps the position inside the text otherwise. */
function readPlace(app, own, about) {
  const { ref, index } = app.state.get();
  if (index && (ref === about.logits || ref === `grad ${about.logits}`)) {
    Object.assign(own, about.place(index));
  }
  if (own.batch >= about.texts) own.batch = 0;
  if (own.position !== null && own.position >= about.positions) own.position = null;
}

function firstOf(targets) {
  const counted = targets.filter(({ target }) => target !== null);
  return counted.length ? counted[counted.length - 1].position : targets.length - 1;
}

function goTo(app, own, about, targets) {
  return (position, token = targets[position].target ?? 0, ref = about.logits) => {
    app.state.update({ ref, index: about.index(own.batch, position, token) });
    app.state.update({ area: "panel" }, { replace: true });      // on a small screen, a cell would lead to its number
  };
}

function controls({ app, own, about }) {
  if (about.texts < 2) return null;
  const names = Array.from({ length: about.texts }, (_, i) => [i, t("attention.text", { n: i + 1 })]);
  const choose = (batch) => app.state.update({ ref: about.logits, index: about.index(batch, 0, 0) });
  return h("div", { class: "controls" }, selectField(t("attention.batch"), "predictions-batch", names, own.batch, choose));
}

/** The loss of each target as a bar; choosing one leads to its position. */
function lossList({ app, own, about, targets, goTo: go }) {
  const counted = targets.filter(({ target }) => target !== null);
  const first = Math.max(0, Math.min(counted.length - MOST_POSITIONS, own.position - MOST_POSITIONS / 2));
  const items = counted.slice(first, first + MOST_POSITIONS).map(({ target, loss, position }) => ({
    label: lossLabel(about, own.batch, position, target), number: loss, position, marked: position === own.position,
    ref: about.losses, index: about.entry(own.batch, position),
  }));
  const limit = Math.max(...items.map(({ number }) => (Number.isFinite(number) ? number : 0)), 1e-12);
  const name = t("predictions.losses");
  const list = bars(items, { limit, name, key: "loss", choose: ({ position }) => go(position) });
  const loss = formatNumber(app.state.get().doc.loss, 4);
  const mean = about.texts > 1 ? t("predictions.mean_of_texts", { loss }) : t("predictions.mean", { n: counted.length, loss });
  keepInView(list);
  return h("section", { class: "losses" }, h("h3", {}, name, " ", saveButton(name, () => list)), list,
    h("p", { class: "note" }, mean));
}

/** Scrolls a long list, once it stands on the page, so that the chosen position is seen. */
function keepInView(list) {
  requestAnimationFrame(() => {
    const chosen = list.querySelector(".marked");
    if (chosen) list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2;
  });
}

function lossLabel(about, batch, position, target) {
  return about.perToken ? `${about.token(batch, position)} → ${about.label(target)}` : about.label(target);
}

/** Probabilities and gradients of the logits at the chosen position, and the loss spelled out. */
async function probabilities(scene) {
  const { app, own, about, here } = scene;
  const gradient = `grad ${about.logits}`;
  const logits = await logitsAt(app, about, about.logits, own.batch, own.position);
  const gradients = app.store.info(gradient) && exists(app.state.get(), gradient) ? await gradientsAt(app, about, own.batch, own.position) : null;
  const shown = largest(logits, SHOWN);
  if (here.target !== null && !shown.includes(here.target)) shown[shown.length - 1] = here.target;
  const holder = h("div", { class: "probabilities-table" });
  const drawTable = () => holder.replaceChildren(probabilityTable(scene, { logits, gradients, shown }));
  const output = h("output", { class: "number" }, own.temperature.toFixed(1));
  const slider = h("input", { type: "range", min: 0, max: 3, step: 0.1, value: own.temperature, "data-key": "temperature",
    oninput: () => {
      own.temperature = Number(slider.value);
      output.textContent = own.temperature.toFixed(1);
      note.hidden = own.temperature === 1;
      drawTable();
    } });
  const note = h("p", { class: "note", hidden: own.temperature === 1 }, t("predictions.temperature_note"));
  drawTable();
  const title = about.perToken ? t(`predictions.title.${about.kind}`, { token: about.token(own.batch, own.position) })
    : t("predictions.title.class");
  const rest = about.size > shown.length && h("p", { class: "note" }, t("predictions.rest", { n: about.size - shown.length }));
  return h("section", { class: "probabilities" }, h("h3", {}, title, " ", saveButton(title, () => holder)),
    h("label", { class: "temperature" }, h("span", {}, t("predictions.temperature")), slider, output), holder, rest, note,
    spelledOut(scene, logits, gradients));
}

/** The loss of the target as -log p, and its gradient as (p - y) / N, each only where it is what the step computed. */
function spelledOut({ about, own, targets, here }, logits, gradients) {
  if (here.target === null) return h("p", { class: "note" }, t("predictions.not_counted"));
  const p = softmax(logits)[here.target];
  const lines = [];
  const target = about.label(here.target);
  if (agree(-Math.log(p), here.loss)) {
    lines.push(t("predictions.spelled", { target, p: formatNumber(p, 4), loss: formatNumber(here.loss) }));
  } else {
    lines.push(t("predictions.smoothed", { target, p: formatNumber(p, 4), loss: formatNumber(here.loss) }));
  }
  const gradient = gradients ? gradients[here.target] : NaN;
  const count = Math.round((p - 1) / gradient);
  if (Number.isFinite(count) && agree((p - 1) / count, gradient)) {
    const numbers = { p: formatNumber(p, 4), n: count, gradient: formatNumber(gradient), target };
    lines.push(t("predictions.gradient", numbers));
  }
  return h("div", { class: "loss-spelled" }, lines.map((line) => h("p", {}, line)));
}

function agree(a, b) {
  return Math.abs(a - b) <= 1e-4 * Math.max(Math.abs(a), Math.abs(b)) + 1e-7;
}

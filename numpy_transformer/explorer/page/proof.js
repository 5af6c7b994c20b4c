// The proof of a gradient: change the chosen number by h and see the loss move. The difference quotient stands beside
// backward's gradient; the curve shows how their difference depends on h. A saved page has the quotients of its arrays,
// a live page asks the server for the loss.

import { button, h, replace } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { t } from "explorer/strings";
import { curveOf } from "explorer/proof_curve";
import { gradientRef, parseRef, shortName, valueOf } from "explorer/refs";

const STEPS = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12];

export function start(root, app) {
  const { state } = app;
  let turn = 0;

  async function draw(now) {
    turn += 1;
    const mine = turn;
    const content = await contentOf(app, now).catch((error) => h("p", { class: "note" }, error.message));
    if (mine === turn) replace(root, content);
  }

  draw(state.get());
  state.subscribe((now, before) => {
    if (now.ref !== before.ref || String(now.index) !== String(before.index) || now.doc !== before.doc) draw(now);
  });
}

async function contentOf(app, { doc, ref, index }) {
  const statement = statementOf(doc);
  const value = ref && index ? valueOf(doc, ref) : null;
  if (!value || !app.store.info(gradientRef(value.id)) || value.shape.length !== index.length) return statement;
  const gradient = Number((await app.store.slice(gradientRef(value.id), index)).data[0]);
  const context = { app, doc, value, index, gradient, name: `${shortName(doc, value.id)}[${index.join(", ")}]` };
  const measured = app.store.live && value.nudge ? live(context) : await saved(context);
  return [h("h3", {}, t("proof.name")), measured || h("p", { class: "note" }, t("proof.none")),
    parseRef(ref).op && h("p", { class: "note" }, t("proof.whole")), statement];
}

// What holds for the whole page.
function statementOf(doc) {
  const worst = doc && doc.proof ? doc.proof.worst : null;
  if (worst === null || worst === undefined) return null;
  return h("p", { class: "note proof-worst", "data-worst": worst }, t("proof.worst", { worst: formatNumber(worst, 2) }));
}

async function saved({ app, doc, value, index, gradient, name }) {
  const { store } = app;
  if (!store.info(`numeric ${value.id}`)) return null;
  const numeric = Number((await store.slice(`numeric ${value.id}`, index)).data[0]);
  const nodes = [h("p", {}, t("proof.saved", { name, h: formatNumber(doc.proof.h) })), comparison(numeric, gradient)];
  if (store.info(`curve ${value.id}`)) {
    const entry = index.reduce((flat, i, axis) => flat * value.shape[axis] + i, 0);
    const steps = doc.proof.steps;
    const { data } = await store.slice(`curve ${value.id}`, [entry, [0, steps.length]]);
    nodes.push(curve(steps.map((step, i) => ({ h: step, error: 10 ** (-data[i] / 16) }))));
  }
  return nodes;
}

// Quotient, gradient and their relative difference: side by side, in their colors.
function comparison(numeric, gradient) {
  const scale = Math.max(Math.abs(numeric), Math.abs(gradient));
  const difference = scale ? Math.abs(numeric - gradient) / scale : 0;
  const row = (name, number, kind) => [h("dt", {}, name), h("dd", { class: kind, "data-value": String(number), title: fullNumber(number) },
    number === 0 ? "0" : number.toPrecision(7).replace(/^-/, "−"))];
  return h("dl", { class: "comparison" },
    row(t("proof.quotient"), numeric, "is-numeric"), row(t("proof.gradient"), gradient, "is-gradient"),
    h("dt", {}, t("proof.difference")), h("dd", { class: "is-difference", "data-value": String(difference) }, formatNumber(difference, 2)));
}

// With a server: a step of one's own choice, and the curve on request.
function live({ app, doc, value, index, name, gradient }) {
  const result = h("div", { class: "nudged", "aria-live": "polite" });
  const step = h("input", { type: "range", min: 1, max: 12, step: 0.5, value: 5, "aria-label": t("proof.step") });
  const shown = h("output", { class: "number" });
  const label = () => replace(shown, `h = ${formatNumber(10 ** -Number(step.value), 2)}`);
  step.addEventListener("input", label);
  label();

  const guarded = (work) => async () => {
    try {
      await work();
    } catch (error) {
      replace(result, h("p", { class: "note" }, error.message));
    }
  };
  const nudge = guarded(async () => replace(result, await nudged({ app, value, index, name, gradient, size: 10 ** -Number(step.value) })));
  const draw = guarded(async () => {
    replace(result, h("p", { class: "note" }, t("proof.computing")));
    replace(result, curve(await errorsOf({ app, doc, value, index, gradient })));
  });
  return h("div", { class: "proof-live" }, h("p", {}, t("proof.live", { name })),
    h("label", { class: "nudge-size" }, step, shown), h("p", { class: "buttons" },
      button(t("proof.nudge"), nudge, { id: "nudge" }), button(t("proof.curve.draw"), draw, { id: "nudge-curve" })), result);
}

async function lossesAround({ app, value, index, size, start }) {
  const up = await app.store.nudge(value.id, index, start + size);
  const down = await app.store.nudge(value.id, index, start - size);
  return { up: up.loss, down: down.loss, quotient: (up.loss - down.loss) / (2 * size) };
}

async function startOf({ app, value, index }) {
  return Number((await app.store.slice(value.id, index)).data[0]);
}

async function nudged({ app, value, index, name, gradient, size }) {
  const start = await startOf({ app, value, index });
  const { up, down, quotient } = await lossesAround({ app, value, index, size, start });
  const row = (text, number) => [h("dt", {}, text), h("dd", { "data-value": String(number) }, number.toPrecision(10))];
  return [
    h("dl", { class: "comparison" }, row(`L(${name} + h)`, up), row(`L(${name} − h)`, down)),
    comparison(quotient, gradient),
  ];
}

async function errorsOf({ app, doc, value, index, gradient }) {
  const start = await startOf({ app, value, index });
  const points = [];
  for (const size of (doc.proof && doc.proof.steps) || STEPS) {
    const { quotient } = await lossesAround({ app, value, index, size, start });
    const scale = Math.max(Math.abs(quotient), Math.abs(gradient));
    points.push({ h: size, error: scale ? Math.abs(quotient - gradient) / scale : 0 });
  }
  return points;
}

function curve(points) {
  return h("figure", { class: "proof-figure" }, curveOf(points), h("figcaption", { class: "note" }, t("proof.curve.words")));
}

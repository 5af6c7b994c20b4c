// The proof of a gradient: change the chosen number by h and see the loss move. The difference quotient stands beside
// backward's gradient; the curve shows how their difference depends on h. A saved page has the quotients of its arrays,
// a live page asks the server for the loss.

import { button, h, replace } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { t } from "explorer/strings";
import { agrees, disagreements } from "explorer/agreement";
import { addressOf, follow, placeOfNumber } from "explorer/links";
import { curveOf } from "explorer/proof_curve";
import { exists } from "explorer/existing";
import { nameInPanel } from "explorer/number_origin";
import { gradientRef, parseRef, shortName, valueOf } from "explorer/refs";
import { saveButton } from "explorer/svg_export";

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
    if (now.ref !== before.ref || String(now.index) !== String(before.index) || now.doc !== before.doc || now.at !== before.at) draw(now);
  });
}

async function contentOf(app, { doc, ref, index: chosen }) {
  const statement = statementOf(app, doc);
  const value = ref ? valueOf(doc, ref) : null;
  const index = value && value.shape.length === 0 ? [] : chosen;
  const isThere = value && exists(app.state.get(), gradientRef(value.id));
  if (!isThere || !index || !app.store.info(gradientRef(value.id)) || value.shape.length !== index.length)
    return statement;
  const gradient = Number((await app.store.slice(gradientRef(value.id), index)).data[0]);
  const context = { app, doc, value, index, gradient, name: `${nameInPanel(app, value.id) ?? shortName(doc, value.id)}[${index.join(", ")}]` };
  const measured = app.store.live && value.nudge ? live(context) : await saved(context);
  return [
    h("h3", {}, t("proof.name")),
    measured || h("p", { class: "note" }, t("proof.none")),
    parseRef(ref).op && h("p", { class: "note" }, t("proof.whole")),
    statement,
  ];
}

// What holds for the whole page.
function statementOf(app, doc) {
  const wrong = disagreements(doc);
  if (wrong) return disagreement(app, wrong);
  const worst = doc && doc.proof ? doc.proof.worst : null;
  if (worst === null || worst === undefined) return null;
  return h(
    "p",
    { class: "note proof-worst", "data-worst": worst },
    t("proof.worst", { worst: formatNumber(worst, 2) }),
  );
}

// Gradients that finite differences contradict: the worst array, and the first one on the way back, as links.
function disagreement(app, { worst, first }) {
  const words = [t("proof.wrong"), " ", t("proof.wrong.worst", { error: formatNumber(worst.error, 2) }), " "];
  words.push(gradientLink(app, worst.value), ".");
  if (first.value !== worst.value) words.push(" ", t("proof.wrong.first"), " ", gradientLink(app, first.value), ".");
  return h("p", { class: "disagreement proof-worst", "data-worst": worst.error }, words);
}

function gradientLink(app, value) {
  const ref = gradientRef(value.id);
  const place = placeOfNumber(app.state.get().doc, ref, null);
  return h(
    "a",
    { href: addressOf(app, place), onclick: follow(app, place), "data-ref": ref },
    `dL/d(${value.title})`,
  );
}

async function saved({ app, doc, value, index, gradient, name }) {
  const { store } = app;
  if (!store.info(`numeric ${value.id}`)) return null;
  const numeric = Number((await store.slice(`numeric ${value.id}`, index)).data[0]);
  const points = await savedCurve(store, doc, value, index);
  const here = points.find((point) => point.h === doc.proof.h);
  return [
    h("p", {}, t("proof.saved", { name, h: formatStep(doc.proof.h) })),
    comparison(numeric, gradient, here ? here.error : relative(numeric, gradient), points),
    points.length > 0 && curve(points),
  ];
}

// The bytes of a curve: b stands for a relative error of 10^(-b / 16), the largest byte for none.
async function savedCurve(store, doc, value, index) {
  if (!store.info(`curve ${value.id}`)) return [];
  const entry = index.reduce((flat, i, axis) => flat * value.shape[axis] + i, 0);
  const { steps } = doc.proof;
  const { data } = await store.slice(`curve ${value.id}`, [entry, [0, steps.length]]);
  return steps.map((step, i) => ({ h: step, error: data[i] === 255 ? 0 : 10 ** (-data[i] / 16) }));
}

function relative(a, b) {
  const scale = Math.max(Math.abs(a), Math.abs(b));
  return scale ? Math.abs(a - b) / scale : 0;
}

// Quotient, gradient and their difference, relative to the largest gradient of the array; and the verdict. A gradient is
// wrong if it agrees with no quotient, whatever the step: a large h differs by its truncation error alone.
function comparison(numeric, gradient, difference, points) {
  const least = Math.min(difference, ...points.map(({ error }) => error).filter(Number.isFinite));
  const wrong = Number.isFinite(least) && !agrees(least);
  return [wrong && h("p", { class: "disagreement", role: "alert" }, t("proof.cell.wrong")), numbersOf(numeric, gradient, difference)];
}

function numbersOf(numeric, gradient, difference) {
  return h(
    "dl",
    { class: "comparison" },
    row(t("proof.quotient"), numeric, "is-numeric"),
    row(t("proof.gradient"), gradient, "is-gradient"),
    row(
      h("span", { title: t("proof.difference.title") }, t("proof.difference")),
      difference,
      "is-difference",
      formatNumber(difference, 2),
    ),
  );
}

function row(name, number, kind, text = digits(number)) {
  return [h("dt", {}, name), h("dd", { class: kind, "data-value": String(number), title: fullNumber(number) }, text)];
}

function digits(number, count = 7) {
  if (number === 0 || !Number.isFinite(number)) return formatNumber(number);
  return Math.abs(number) < 1e-4 ? formatNumber(number, count) : number.toPrecision(count).replace(/^-/, "−");
}

// 10⁻⁵ and 3·10⁻⁵
function formatStep(size) {
  return formatNumber(size, Number.isInteger(Math.log10(size)) ? 1 : 2).replace(/^1·/, "");
}

// With a server: a step of the reader's choice. The answer holds both losses, and the error for other steps.
function live({ app, value, index, name }) {
  const result = h("div", { class: "nudged", "aria-live": "polite" });
  const slider = h("input", { type: "range", min: 1, max: 12, step: 1, value: 5, "aria-label": t("proof.step") });
  const shown = h("output", { class: "number" });
  const size = () => Number(`1e-${slider.value}`);
  const label = () => replace(shown, `h = ${formatStep(size())}`);
  slider.addEventListener("input", label);
  label();

  const nudge = async () => {
    replace(result, h("p", { class: "note" }, t("proof.computing")));
    try {
      replace(result, nudged(await app.store.nudge(value.id, index, size()), name));
    } catch (error) {
      replace(result, h("p", { class: "note", role: "alert" }, error.message));
    }
  };
  return h(
    "div",
    { class: "proof-live" },
    h("p", {}, t("proof.live", { name })),
    h("div", { class: "nudge-size" }, slider, shown, button(t("proof.nudge"), nudge, { id: "nudge" })),
    result,
  );
}

function nudged({ plus, minus, numeric, gradient, difference, curve: points }, name) {
  const errors = (points || []).map(([size, error]) => ({ h: size, error }));
  return [
    h(
      "dl",
      { class: "comparison" },
      row(`L(${name} + h)`, plus, "is-loss", digits(plus, 10)),
      row(`L(${name} − h)`, minus, "is-loss", digits(minus, 10)),
    ),
    comparison(numeric, gradient, difference ?? relative(numeric, gradient), errors),
    errors.length > 1 && curve(errors),
  ];
}

function curve(points) {
  const picture = curveOf(points);
  const words = h("figcaption", { class: "note" }, t("proof.curve.words"));
  return h("figure", { class: "proof-figure" }, picture, saveButton(t("proof.curve.file"), () => picture), words);
}

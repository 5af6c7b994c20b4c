// The opening: the reader's first ten seconds. A sentence flows through this model to its answer, the error flows back, and one
// number is opened, all with the numbers of this step. It can be skipped, is shown once, and where motion is not wanted it is a
// sheet of stills.

import { button, h, replace } from "explorer/dom";
import { colorOf, cssColor, inkOn } from "explorer/colors";
import { formatNumber } from "explorer/format";
import { streamOf, targetsIn } from "explorer/places";
import { describe, largest, logitsAt, softmax } from "explorer/predictions_data";
import { gradientRef } from "explorer/refs";
import { softmaxBackward } from "explorer/stations";
import { t } from "explorer/strings";

const SEEN = "numpy-transformer-explorer-seen";
const WIDE = "(min-width: 1350px)";          // room for the stories beside everything else (style.css)
const MOST = { tokens: 9, features: 12, layers: 4, words: 4 };
const AT = { sentence: 0.1, forward: 2, answer: 3.8, backward: 5.9, number: 8.2, end: 10.8 };          // seconds

export async function start(root, app) {
  document.addEventListener("show-opening", () => show(root, app));
  if (isFirstVisit()) {
    await show(root, app);
  }
}

// True if the page was opened without an address into it, and the browser can remember that it has been opened.
function isFirstVisit() {
  const placed = window.location.hash.length > 1 || document.body.dataset.start;
  try {
    return !placed && window.localStorage.getItem(SEEN) === null;
  } catch (error) {
    return false;                     // pages in a frame may not remember anything
  }
}

function remember() {
  try {
    window.localStorage.setItem(SEEN, "1");
  } catch (error) {
    // It was shown; that it will be shown again does no harm.
  }
}

async function show(root, app) {
  const scene = await sceneOf(app).catch(() => null);       // a step without tokens, or with arrays that the page does not hold
  remember();
  if (!scene) {
    return;
  }
  const before = document.activeElement;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const end = () => {
    window.clearTimeout(timer);
    replace(root);
    root.hidden = true;
    if (before?.isConnected && before !== document.body) {
      before.focus({ preventScroll: true });
    } else if (window.matchMedia(WIDE).matches) {
      app.state.update({ story: "" }, { replace: true });      // a first visit goes on with the list of stories
    }
  };
  const skip = button(t(still ? "opening.go" : "opening.skip"), end, { id: "opening-skip", class: still ? "primary" : "quiet" });
  root.hidden = false;
  replace(root, h("div", { class: still ? "opening is-still" : "opening", role: "dialog", "aria-modal": "true", "aria-label": t("opening.name") },
    captions(scene), picture(scene), number(scene), h("div", { class: "opening-actions" }, skip)));
  root.onkeydown = (event) => {
    if (event.key === "Escape") {
      end();
    }
    event.stopPropagation();                                 // the time line's keys wait
    if (event.key === "Tab") {
      event.preventDefault();                                // there is one button
    }
  };
  skip.focus();
  const timer = still ? 0 : window.setTimeout(end, 1000 * AT.end);
}

// What the opening shows: tokens, the residual stream with its gradients, the answer at one target, and a number of a softmax.
async function sceneOf(app) {
  const { base: doc } = app.state.get();
  const stream = streamOf(doc).slice(0, MOST.layers);
  const [first] = stream;
  const axis = first?.axes.find(({ tokens }) => tokens);
  const tokens = (doc.tokens?.[axis?.tokens] ?? [])[0];
  if (!first || first.shape.length !== 3 || !tokens || !doc.predictions) {
    return null;
  }
  const count = Math.min(MOST.tokens, first.shape[1]);
  const width = Math.min(MOST.features, first.shape[2]);
  const read = async (ref) => {
    const { data } = await app.store.slice(ref, [0, [0, count], [0, width]], doc);
    const limit = Math.max(...Array.from(data, Math.abs), 1e-30);
    return (token) => ({ numbers: Array.from(data.slice(token * width, (token + 1) * width)), limit });
  };
  const layers = await Promise.all(stream.map(async ({ id }) => ({ value: await read(id), gradient: await read(gradientRef(id)) })));
  const about = describe(app);
  const targets = await targetsIn(app, doc);
  const target = targets.at(-1);
  const p = softmax(await logitsAt(app, about, about.logits, 0, target.position));
  const words = largest(p, MOST.words);
  if (!words.includes(target.target)) {
    words[words.length - 1] = target.target;
  }
  return { tokens: tokens.slice(0, count), width, layers, position: about.perToken ? target.position : null, target, kind: about.kind,
    words: words.map((i) => ({ label: about.label(i), p: p[i], right: i === target.target })), cell: await cellOf(app, doc) };
}

// One entry of a softmax's gradient with the numbers of its formula: P (dP - sum P dP).
async function cellOf(app, doc) {
  const place = (await softmaxBackward(app, doc))?.place;
  const entry = (doc.attention ?? [])[0];
  if (!place || !entry || !doc.arrays[gradientRef(entry.weights)]) {
    return null;
  }
  const row = [...place.index.slice(0, 3), [0, app.store.info(entry.weights, doc).shape[3]]];
  const weights = (await app.store.slice(entry.weights, row, doc)).data;
  const gradients = (await app.store.slice(gradientRef(entry.weights), row, doc)).data;
  const [, , i, j] = place.index;
  const mean = weights.reduce((sum, weight, k) => sum + weight * gradients[k], 0);
  const names = (which) => (doc.tokens?.[entry[which]] ?? [])[0] ?? [];
  return { p: weights[j], dp: gradients[j], mean, result: weights[j] * (gradients[j] - mean), query: names("query")[i] ?? i, key: names("key")[j] ?? j };
}

// Lets an element come at a second of the opening.
function from(seconds, element, name = "comes") {
  element.classList.add(name);
  element.style.setProperty("--from", `${seconds}s`);
  return element;
}

function captions({ kind, target, cell }) {
  const said = [
    [AT.sentence, t("opening.sentence")], [AT.forward, t(`opening.forward.${kind}`)],
    [AT.answer, t(target.token === null ? "opening.answer" : "opening.answer.after", { token: target.token ?? "", target: target.label, p: percent(Math.exp(-target.loss)), share: formatNumber(Math.exp(-target.loss)), loss: formatNumber(target.loss) })],
    [AT.backward, t("opening.backward")], ...(cell ? [[AT.number, t("opening.number")]] : []),
  ];
  return h("ol", { class: "opening-captions" }, said.map(([seconds, text], i) => {
    const line = from(seconds, h("li", {}, text));
    line.style.setProperty("--until", `${said[i + 1]?.[0] ?? 60}s`);
    return line;
  }));
}

function percent(p) {
  return `${formatNumber(100 * p)} %`;
}

function picture({ tokens, layers, width, words, position }) {
  const rows = layers.flatMap(({ value, gradient }, layer) => {
    const share = layers.length > 1 ? layer / (layers.length - 1) : 0;
    const forward = AT.sentence + 0.5 + (layer === 0 ? 0 : AT.forward - AT.sentence - 0.5 + 1.4 * share);
    const backward = AT.backward + 0.3 + 1.2 * (1 - share);
    return tokens.map((_, token) => h("div", { class: "opening-cell", "data-layer": layer },
      from(forward + 0.06 * token, strip(value(token), "value")), from(backward + 0.06 * (tokens.length - token), strip(gradient(token), "gradient"))));
  });
  const bars = words.map(({ label, p, right }, i) => from(AT.answer - 0.6 + 0.12 * i, h("li", { class: right ? "is-right" : null },
    h("span", {}, label), h("span", { class: "meter" }, h("span", { class: "meter-fill", style: { width: `${100 * p}%`, background: cssColor("value", 0.75, 1) } })),
    h("span", { class: "number" }, percent(p)))));
  const grid = h("div", { class: "opening-grid", style: { "--tokens": tokens.length, "--features": width } },
    tokens.map((token, i) => from(AT.sentence + 0.08 * i, h("div", { class: i === position ? "opening-token is-asked" : "opening-token" }, token))), rows);
  return h("div", { class: "opening-picture", "aria-hidden": "true" }, grid, h("ul", { class: "opening-words" }, bars));
}

function strip({ numbers, limit }, kind) {
  return h("div", { class: `opening-strip is-${kind}` }, numbers.map((x) => h("i", { style: { background: cssColor(kind, x, limit) } })));
}

function number({ cell }) {
  if (!cell) {
    return null;
  }
  const chip = (x, kind, limit) => {
    const color = colorOf(kind, x, limit);
    return h("b", { class: `is-${kind}`, style: { background: `rgb(${color.join(",")})`, color: `rgb(${inkOn(color).join(",")})` } }, formatNumber(x));
  };
  const most = Math.max(Math.abs(cell.dp), Math.abs(cell.mean), 1e-30);
  return from(AT.number, h("div", { class: "opening-number" },
    h("p", { class: "note" }, t("opening.cell", { query: cell.query, key: cell.key })),
    h("p", { class: "opening-formula" }, h("span", {}, "dS = P · (dP − Σ P dP) = "), chip(cell.p, "value", 1), h("span", {}, " · ("), chip(cell.dp, "gradient", most),
      h("span", {}, " − "), cell.mean < 0 ? ["(", chip(cell.mean, "gradient", most), ")"] : chip(cell.mean, "gradient", most), h("span", {}, ") = "),
      chip(cell.result, "gradient", Math.abs(cell.result) || 1))));
}

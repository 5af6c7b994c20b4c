// What the model predicts in each frame: at every position of a text, or for the classes of a text; and what it writes.

import { h, replace } from "explorer/dom";
import { formatCount } from "explorer/format";
import { t } from "explorer/strings";
import { shorten, widest } from "explorer/text_width";

const LONGEST = 14; // of a name, in Latin letters
const LETTERS = 22; // that the guesses at one position may have together

export function start(root, film) {
  const { example } = film;
  if (!example) {
    replace(root, h("h2", {}, t("predictions.next token")), h("p", { class: "note" }, t("predictions.none")));
    return { draw() {}, redraw() {} };
  }
  const score = h("p", { class: "score number" });
  const body = example.kind === "class" ? classRows(film) : positionRows(film);
  const written = example.samples.length ? sample(film) : null;
  replace(root, h("h2", {}, t(`predictions.${example.kind}`)), texts(example), written && written.element, score, body.element);
  const count = example.rows.length;

  function draw(frame) {
    const right = example.right.subarray(frame * count, (frame + 1) * count);
    const mean = right.reduce((sum, p) => sum + p, 0) / count;
    const known = example.isRight.subarray(frame * count, (frame + 1) * count).reduce((sum, one) => sum + one, 0);
    score.textContent = example.kind === "class" ? t("predictions.score_class", { mean: share(mean) })
      : t("predictions.score", { right: known, of: count, mean: share(mean) });
    score.dataset.value = mean;
    body.draw(frame);
    if (written) written.draw(frame);
  }

  let shown = 0;
  return { draw: (frame) => draw((shown = frame)), redraw: () => draw(shown) };
}

function texts({ text, target, kind }) {
  const answer = target && kind !== "class";
  return h("div", { class: "texts" }, h("p", {}, h("span", { class: "note" }, t("predictions.text")), h("code", {}, text)),
    answer && h("p", {}, h("span", { class: "note" }, t("predictions.answer")), h("code", {}, target)));
}

// One row for each position, whose elements stay; only texts and widths change from frame to frame.
function positionRows({ example }) {
  const count = example.rows.length;
  const guesses = example.best.length / example.right.length;
  const shown = guessesThatFit(example.names, guesses);
  const rows = example.rows.map(({ reads, right }, i) => {
    const meter = h("span", { class: "meter-fill" });
    const number = h("span", { class: "number" });
    const best = Array.from({ length: shown }, () => h("span", { class: "guess" }));
    const mark = h("span", { class: "verdict" });
    const element = h("tr", { "data-row": i }, h("td", {}, h("code", { title: reads }, shorten(reads, LONGEST))), h("th", { scope: "row" }, h("code", { title: right }, shorten(right, LONGEST))),
      h("td", { class: "bar-cell" }, h("span", { class: "meter" }, meter), number, mark), h("td", { class: "guesses" }, best));
    return { element, meter, number, best, mark, right };
  });
  const heads = ["reads", "right", "bar", "guesses"].map((name) => h("th", { scope: "col" }, t(`predictions.${name}`)));
  const element = h("div", { class: "scroll" }, h("table", { class: example.kind === "next token" ? "positions" : "positions words" }, h("thead", {}, h("tr", {}, heads)),
    h("tbody", {}, rows.map((row) => row.element))));

  function draw(frame) {
    rows.forEach((row, i) => {
      const place = frame * count + i;
      const p = example.right[place];
      const isRight = example.isRight[place] === 1;
      row.element.classList.toggle("hit", isRight);
      row.meter.style.setProperty("transform", `scaleX(${p})`);
      row.number.textContent = share(p);
      row.number.dataset.value = p;
      row.mark.textContent = isRight ? "✓" : "";
      row.mark.setAttribute("aria-label", t(isRight ? "predictions.is_right" : "predictions.is_wrong"));
      row.best.forEach((guess, k) => {
        const one = place * guesses + k;
        const name = example.names[example.best[one]];
        guess.textContent = `${shorten(name, LONGEST)} ${share(example.probabilities[one])}`;
        guess.classList.toggle("right", name === row.right);
      });
    });
  }
  return { element, draw };
}

// How many guesses fit beside one another: names are as wide as something between the usual one and the widest.
function guessesThatFit(names, guesses) {
  const widths = names.map((name) => Math.min(LONGEST, widest([name]))).sort((a, b) => a - b);
  const width = (widths[Math.floor(widths.length * 0.75)] + widths[widths.length - 1]) / 2;
  return Math.max(1, Math.min(guesses, Math.floor(LETTERS / (width + 5))));
}

// One bar for each class, in the same order in all frames.
function classRows({ example }) {
  const guesses = example.best.length / example.right.length;
  const { right } = example.rows[0];
  const rows = example.names.map((name) => {
    const meter = h("span", { class: "meter-fill" });
    const number = h("span", { class: "number" });
    const element = h("tr", { class: name === right ? "right-class" : "" }, h("th", { scope: "row" }, name),
      h("td", { class: "bar-cell" }, h("span", { class: "meter" }, meter), number, name === right && h("span", { class: "verdict" }, `✓ ${t("predictions.right")}`)));
    return { element, meter, number };
  });
  const element = h("table", { class: "positions classes" }, h("tbody", {}, rows.map((row) => row.element)));

  function draw(frame) {
    const shares = new Array(rows.length).fill(null);
    for (let k = frame * guesses; k < (frame + 1) * guesses; k += 1) shares[example.best[k]] = example.probabilities[k];
    rows.forEach((row, i) => {
      row.element.classList.toggle("hit", example.isRight[frame] === 1 && row.element.classList.contains("right-class"));
      row.meter.style.setProperty("transform", `scaleX(${shares[i] ?? 0})`);
      row.number.textContent = shares[i] === null ? "–" : share(shares[i]);
      row.number.dataset.value = shares[i] ?? "";
    });
  }
  return { element, draw };
}

// What the model writes by itself; it was written in some frames only, and stays until the next of them.
function sample({ example, frames }) {
  const text = h("span", { class: "written" });
  const when = h("span", { class: "note" });
  const mark = h("span", { class: "verdict" });
  const element = h("div", { class: "sample" }, h("p", { class: "note" }, t("predictions.writes"), " ", when),
    h("p", { class: "paper" }, h("code", {}, example.start && h("span", { class: "prompt" }, example.start), text), mark));

  function draw(frame) {
    const latest = example.samples.reduce((found, one) => (one.frame <= frame ? one : found), example.samples[0]);
    const isExact = example.start === null && latest.text === example.target;
    text.textContent = latest.text;
    when.textContent = t("predictions.written", { step: formatCount(frames[latest.frame].step) });
    mark.textContent = isExact ? `✓ ${t("predictions.exact")}` : "";
    element.classList.toggle("hit", isExact);
  }
  return { element, draw };
}

function share(p) {
  return p.toFixed(2);
}

// The player: the curves with a slider under them, the buttons, the keys, and the numbers of the present frame.

import { button, h, replace, s } from "explorer/dom";
import { curves, GUTTER } from "explorer/film_curves";
import { validationAt } from "explorer/film_data";
import { formatCount, formatNumber } from "explorer/format";
import { t } from "explorer/strings";

const SPEEDS = [0.25, 0.5, 1, 2, 4];
const RATE = 8;                   // frames in a second at speed 1
const SIGNS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z", previous: "M11 3v10L4 8z", play: "M4 2.5v11l9-5.5z", pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z", last: "M11 3h2v10h-2zM3 3v10l7-5z",
};

export function start(root, film, show) {
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const last = film.frames.length - 1;
  const chart = curves(film);
  let at = 0;
  let playing = null;             // what requestAnimationFrame has returned

  const byHand = (frame) => () => {
    pause();
    go(frame());
  };
  const step = (name, frame) => button(sign(name), byHand(frame), { label: t(`player.${name}`), id: name });
  const play = button(sign("play"), () => (playing ? pause() : run()), { label: t("player.play"), id: "play", class: "play" });
  const speed = h("select", { id: "speed", "aria-label": t("player.speed") },
    SPEEDS.map((n) => h("option", { value: n, selected: n === 1 }, `${n}×`)));
  const slider = h("input", { type: "range", id: "slider", min: 0, max: last, step: 1, value: 0, "aria-label": t("player.slider"),
    oninput: () => byHand(() => Number(slider.value))() });
  const numbers = readings(film);
  const keys = h("p", { class: "note keys" });
  chart.canvas.setAttribute("role", "img");
  const track = h("div", { class: "track-of-film" }, chart.canvas, slider);
  replace(root, h("div", { class: "controls" }, numbers.element, h("div", { class: "buttons" }, step("first", () => 0),
    step("previous", () => Math.max(0, at - 1)), play, step("next", () => Math.min(last, at + 1)), step("last", () => last), speed)),
  h("div", { class: "curves" }, track, h("p", { class: "note" }, explanation(film)), keys));
  slider.style.setProperty("margin-left", `${GUTTER.left - 10}px`);
  slider.style.setProperty("width", `calc(100% - ${GUTTER.left + GUTTER.right - 20}px)`);

  function go(frame) {
    at = frame;
    slider.value = frame;
    slider.style.setProperty("--done", `${(100 * frame) / Math.max(1, last)}%`);
    const shown = numbers.draw(frame);
    slider.setAttribute("aria-valuetext", shown.sentence);
    chart.canvas.setAttribute("aria-label", shown.description);
    chart.draw(frame);
    show(frame);
  }

  function run() {
    if (at >= last) go(0);
    let before = null;
    let ahead = 0;                // frames that are due
    const tick = (time) => {
      ahead += before === null ? 0 : ((time - before) / 1000) * RATE * Number(speed.value);
      before = time;
      if (ahead >= 1) {
        go(Math.min(last, at + Math.floor(ahead)));
        ahead %= 1;
      }
      if (at >= last) pause();
      else playing = window.requestAnimationFrame(tick);
    };
    playing = window.requestAnimationFrame(tick);
    showPlaying();
  }

  function pause() {
    if (!playing) return;
    window.cancelAnimationFrame(playing);
    playing = null;
    showPlaying();
    show(at);                     // while a film plays, panels may leave out what cannot be seen
  }

  function showPlaying() {
    const name = playing ? "pause" : "play";
    if (play.dataset.sign === name) return;
    play.dataset.sign = name;
    replace(play, sign(name));
    play.setAttribute("aria-label", t(`player.${name}`));
    play.title = t(`player.${name}`);
    document.body.toggleAttribute("data-playing", playing !== null);
  }

  // Whoever wants less motion steps through the frames.
  function showMotion() {
    play.hidden = still.matches;
    speed.hidden = still.matches;
    keys.textContent = t(still.matches ? "player.keys_still" : "player.keys");
    if (still.matches) pause();
  }

  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.closest?.("select")) return;
    const actions = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => last };
    if (actions[event.key]) {
      event.preventDefault();
      pause();
      go(Math.max(0, Math.min(last, actions[event.key]())));
    } else if (event.key === " " && !target.closest?.("button, summary") && !still.matches) {
      event.preventDefault();
      if (playing) pause();
      else run();
    }
  });

  const scrub = (event) => go(Math.max(0, Math.min(last, chart.frameAt(event.clientX - chart.canvas.getBoundingClientRect().left))));
  chart.canvas.addEventListener("pointerdown", (event) => {
    pause();
    chart.canvas.setPointerCapture(event.pointerId);
    scrub(event);
  });
  chart.canvas.addEventListener("pointermove", (event) => chart.canvas.hasPointerCapture(event.pointerId) && scrub(event));
  still.addEventListener("change", showMotion);

  function redraw() {
    const width = track.clientWidth;
    chart.redraw(width, width < 600 ? 132 : 164);
    go(at);
  }

  return {
    redraw,
    // A film plays when its page opens; for those who want less motion it shows its last frame.
    begin() {
      showMotion();
      at = still.matches ? last : 0;
      redraw();
      if (!still.matches) run();
    },
  };
}

// The numbers of a frame, which are the legend of the curves, too.
function readings(film) {
  const step = h("b", { id: "step", class: "number" });
  const of = h("span", { class: "note" }, t("player.of", { last: formatCount(film.doc.run.planned) }));
  const rows = ["loss", "validation", "norm", "lr"].map((name) => {
    const number = h("dd", { class: "number", id: `reading-${name}` });
    return { name, number, element: h("div", {}, h("dt", {}, h("i", { class: `mark ${name}`, "aria-hidden": "true" }), t(`curve.${name}`)), number) };
  });
  const element = h("div", { class: "readings" }, h("p", { class: "step" }, step, " ", of), h("dl", {}, rows.map((row) => row.element)));

  function draw(frame) {
    const shown = film.frames[frame];
    const validation = validationAt(film, shown.step);
    const numbers = { loss: shown.loss, validation: validation && validation.loss, norm: shown.norm, lr: shown.lr };
    step.textContent = t("player.step", { step: formatCount(shown.step) });
    const texts = {};
    for (const { name, number } of rows) {
      texts[name] = numbers[name] === null ? "–" : formatNumber(numbers[name], Math.abs(numbers[name]) < 1e-3 ? 2 : 3);
      number.textContent = texts[name];
      number.dataset.value = numbers[name] ?? "";
    }
    const described = (name) => (numbers[name] === null ? t("curve.none") : texts[name]);
    const description = t("curve.describe", { step: formatCount(shown.step), loss: described("loss"),
      validation: described("validation"), norm: described("norm"), rate: described("lr") });
    const sentence = shown.loss === null ? t("player.start", { step: formatCount(shown.step) })
      : t("player.valuetext", { step: formatCount(shown.step), last: formatCount(film.doc.run.planned), loss: texts.loss });
    return { sentence, description };
  }

  return { element, draw };
}

function explanation({ doc }) {
  const every = doc.curves.every > 1 ? ` ${t("curve.every", { n: doc.curves.every })}` : "";
  const smoothing = doc.run.label_smoothing ? ` ${t("curve.label_smoothing", { share: doc.run.label_smoothing })}` : "";
  return `${t("curve.smooth")} ${t("curve.axis")}${every}${smoothing}`;
}

function sign(name) {
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: SIGNS[name] }));
}

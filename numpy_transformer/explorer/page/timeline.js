// The time line: play, pause, single steps, a track to scrub on, and one sentence that says what the present step does.
// Stepping does not fill the browser's history: a row of steps is one place.

import { button, h, replace, s } from "explorer/dom";
import { lookup } from "explorer/lookup";
import { positionOf } from "explorer/progress";
import { t } from "explorer/strings";

const SPEEDS = [0.5, 1, 2, 4];
const PAUSE = 900;                // milliseconds for one step at speed 1
const MOST_TICKS = 240;

// The signs of the buttons, drawn because not every font has them.
const SIGNS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z", previous: "M11 3v10L4 8z", play: "M4 2.5v11l9-5.5z", pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z", last: "M11 3h2v10h-2zM3 3v10l7-5z",
};

export function start(root, app) {
  const { state } = app;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  let timer = null;

  const go = (at) => state.update({ at }, { step: true });
  const last = () => state.get().doc.steps.length - 1;
  const stepBy = (change) => go(Math.max(0, Math.min(last(), state.get().at + change)));

  const play = button(sign("play"), () => (timer ? pause() : run()), { label: t("timeline.play"), id: "play", class: "play" });
  const speed = h("select", { id: "speed", "aria-label": t("timeline.speed"), onchange: () => timer && run() },
    SPEEDS.map((n) => h("option", { value: n, selected: n === 1 }, `${n}×`)));
  const label = h("output", { class: "position", id: "position" });
  const sentence = h("p", { class: "sentence", id: "sentence" });
  const track = h("div", { class: "track", role: "slider", tabindex: 0, "aria-label": t("timeline.track"), "aria-valuemin": 1 });
  const byHand = (change) => () => {
    pause();
    change();
  };
  replace(root,
    h("div", { class: "buttons" },
      button(sign("first"), byHand(() => go(0)), { label: t("timeline.first"), id: "first" }),
      button(sign("previous"), byHand(() => stepBy(-1)), { label: t("timeline.previous"), id: "previous" }), play,
      button(sign("next"), byHand(() => stepBy(1)), { label: t("timeline.next"), id: "next" }),
      button(sign("last"), byHand(() => go(last())), { label: t("timeline.last"), id: "last" }), speed),
    h("div", { class: "middle" }, track, h("div", { class: "caption" }, label, sentence)));

  function run() {
    window.clearInterval(timer);
    if (state.get().at >= last()) {
      go(0);
    }
    timer = window.setInterval(() => (state.get().at >= last() ? pause() : stepBy(1)), PAUSE / Number(speed.value));
    showPlaying();
  }

  function pause() {
    window.clearInterval(timer);
    timer = null;
    showPlaying();
  }

  function showPlaying() {
    replace(play, sign(timer ? "pause" : "play"));
    play.setAttribute("aria-label", t(timer ? "timeline.pause" : "timeline.play"));
    play.title = play.getAttribute("aria-label");
    document.body.toggleAttribute("data-playing", timer !== null);
  }

  function showMotion() {
    play.hidden = still.matches;
    speed.hidden = still.matches;
    if (still.matches) {
      pause();
    }
  }

  function drawTrack({ doc }) {
    const { steps } = lookup(doc);
    const part = (phase, from, count) => h("div", { class: `part ${phase}`, style: { "flex-grow": count } },
      count <= MOST_TICKS && Array.from({ length: count }, (_, i) => h("i", { "data-at": from + i })));
    replace(track, part("forward", 0, steps.forward), part("backward", steps.forward, steps.backward),
            steps.optimizer >= 0 && part("optimizer", steps.optimizer, 1), h("b", { class: "knob" }));
    track.setAttribute("aria-valuemax", doc.steps.length);
  }

  function draw({ doc, at }) {
    const { phase, n, of } = positionOf(doc, at);
    label.textContent = t(`timeline.${phase}`, { count: n, of });
    label.className = `position ${phase}`;
    sentence.textContent = sentenceFor(doc, at);
    sentence.title = sentence.textContent;
    for (const tick of track.querySelectorAll("i")) {
      tick.classList.toggle("done", Number(tick.dataset.at) <= at);
    }
    track.querySelector(".knob").style.setProperty("left", `${(100 * (at + 0.5)) / doc.steps.length}%`);
    track.querySelector(".knob").dataset.phase = phase;
    track.style.setProperty("--done", `${(100 * (at + 1)) / doc.steps.length}%`);
    track.setAttribute("aria-valuenow", at + 1);
    track.setAttribute("aria-valuetext", `${label.textContent}. ${sentence.textContent}`);
  }

  function scrub(event) {
    const box = track.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    go(Math.max(0, Math.min(last(), Math.floor(share * (last() + 1)))));
  }
  track.addEventListener("pointerdown", (event) => {
    pause();
    track.setPointerCapture(event.pointerId);
    scrub(event);
  });
  track.addEventListener("pointermove", (event) => track.hasPointerCapture(event.pointerId) && scrub(event));

  // The keys work anywhere on the page, unless what has the focus needs them itself (it then prevents the default).
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    const typing = target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing) {
      return;
    }
    const pressed = target.closest?.("button, a, summary, input, [role=button], [role=tab], [role=switch]");
    const action = {
      ArrowRight: () => stepBy(1), ArrowLeft: () => stepBy(-1), Home: () => go(0), End: () => go(last()),
      " ": () => !still.matches && (timer ? pause() : run()),
    }[event.key];
    if (action && !(event.key === " " && pressed)) {
      event.preventDefault();
      if (event.key !== " ") {
        pause();
      }
      action();
    }
  });

  still.addEventListener("change", showMotion);
  showMotion();
  drawTrack(state.get());
  draw(state.get());
  state.subscribe((now, before) => {
    if (now.doc !== before.doc) {
      drawTrack(now);
    }
    if (now.doc !== before.doc || now.at !== before.at) {
      draw(now);
    }
  });
}

// What happens in a step, as one sentence.
function sentenceFor(doc, at) {
  const { phase, op } = doc.steps[at] ?? {};
  if (phase === "optimizer") {
    return t("sentence.optimizer");
  }
  const look = lookup(doc);
  const item = look.op(op);
  if (!item) {
    return "";
  }
  const name = item.kind === "add" ? t("sentence.plus") : item.label;
  const place = [...look.ancestors(op).map((id) => look.group(id).label), name].join(", ");
  const inputs = Object.keys(item.inputs);
  const outputs = Object.keys(item.outputs);
  if (phase === "forward") {
    const from = [...inputs, ...Object.keys(item.parameters ?? {})];
    const key = item.kind === "add" ? "sentence.forward.add" : "sentence.forward";
    return t(key, { place, from: list(from), to: list(outputs) });
  }
  const gradients = inputs.filter((slot) => look.value(item.inputs[slot])?.has_gradient);
  const parts = [...gradients, ...Object.keys(item.parameters ?? {})];
  const sentences = [parts.length === 0 ? t("sentence.backward.end", { place })
    : t(item.kind === "add" ? "sentence.backward.add" : "sentence.backward",
        { place, from: list(outputs.map((name) => `d${name}`)), to: list(parts.map((name) => `d${name}`)) })];
  const waiting = gathered(look, item);
  if (waiting) {
    sentences.unshift(waiting);
  }
  return sentences.join(" ");
}

// Before an op runs backward, the gradients of all consumers of its output have been added.
function gathered(look, item) {
  const [name, output] = Object.entries(item.outputs)[0];
  const senders = look.value(output).consumers.filter(({ op }) => look.stepOf(op, "backward") !== null);
  return senders.length > 1 ? t("sentence.sum", { n: senders.length, name: `d${name}` }) : null;
}

function sign(name) {
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: SIGNS[name] }));
}

function list(names) {
  if (names.length <= 1) {
    return names.join("");
  }
  return t("sentence.list", { first: names.slice(0, -1).join(", "), last: names[names.length - 1] });
}

// The map: the computation graph as nested boxes. This file folds and unfolds, chooses, scrolls and scales; map_draw.js makes the
// elements (once for each set of folded groups), and map_step.js shows a step on them.

import { h, replace } from "explorer/dom";
import { layOut } from "explorer/layout";
import { lookup } from "explorer/lookup";
import { drawMap, measure } from "explorer/map_draw";
import { handleKey } from "explorer/map_keys";
import { editing } from "explorer/edit_list";
import { switchesOf, switchesWidth } from "explorer/map_switches";
import { drawPath } from "explorer/map_path";
import { showStep } from "explorer/map_step";
import { gradientRef } from "explorer/refs";
import { t } from "explorer/strings";
import { onPath, shownPath } from "explorer/shown_path";
import { saveButton } from "explorer/svg_export";
import { paint } from "explorer/thumbnails";
import { LEVELS, foldedAt, zoomControl } from "explorer/zoom";

const NARROW = "(max-width: 899px)";          // one area at a time (style.css)

export function start(root, app) {
  return startMap(root, app, { tools: true });
}

// What two maps side by side share: which groups are folded, how far one has zoomed, and how far they are scrolled.
function sharedBy(app) {
  app.folding ??= { folded: new Set(), opened: new Set(), level: 1, others: new Map() };
  return app.folding;
}

export function startMap(root, app, { tools }) {
  const { state } = app;
  const shared = sharedBy(app);
  const view = { scene: null, nodes: new Map(), svg: null, focus: null };
  const stage = h("div", { class: "stage" });
  const switches = (item) => (tools && app.store.live ? switchesOf(state.get().doc, item) : []);
  const widthOf = (item) => switchesWidth(switches(item), measure);
  const actions = editing(app);
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const follow = h("input", { type: "checkbox", id: "follow", checked: true });
  const common = h("input", { type: "checkbox", id: "common", checked: state.get().common,
    onchange: () => state.update({ common: common.checked }, { replace: true }) });
  const zoom = zoomControl(stage, (level) => zoomTo(level));
  replace(root, h("p", { class: "map-title", id: tools ? "map-title" : null }),
    tools && h("div", { class: "tools" }, zoom.element,
      h("label", { class: "check", title: t("map.common.help") }, common, t("map.common")),
      h("label", { class: "check", title: t("map.follow.help") }, follow, t("map.follow")),
      saveButton(t("map.name"), () => view.svg)),
    stage);

  function zoomTo(level) {
    shared.level = level;
    shared.folded = foldedAt(state.get().doc, level);
    shared.opened.clear();
    drawAll();
    scrollTo(visible(state.get().op ?? ""));
  }

  function toggle(id) {
    if (!shared.folded.delete(id)) {
      shared.folded.add(id);
    }
    shared.opened.delete(id);
    view.focus = id;
    drawAll();
    focusOn(id);
  }

  // At first, groups unfold from the outside in, as long as the map fits its place.
  function foldToFit() {
    const { doc } = state.get();
    const look = lookup(doc);
    const height = Math.max(400, stage.clientHeight - 8);
    shared.folded = new Set(doc.groups.map((group) => group.id));
    const fromOutside = [...doc.groups].sort((a, b) => look.ancestors(a.id).length - look.ancestors(b.id).length);
    for (const { id, parent } of fromOutside) {
      if (!shared.folded.has(parent)) {
        shared.folded.delete(id);
        const scene = layOut(doc, shared.folded, measure, { switches: widthOf });
        if (scene.height * 0.85 > height || scene.width * 0.8 > stage.clientWidth) {
          shared.folded.add(id);
        }
      }
    }
  }

  // The groups around an op unfold; on the time line, those that were unfolded for an earlier step fold again.
  function reveal(id, keepOthers) {
    const around = new Set(lookup(state.get().doc).ancestors(id));
    const left = keepOthers ? [] : [...shared.opened].filter((group) => !around.has(group) && group !== id);
    const entered = [...around].filter((group) => shared.folded.has(group));
    for (const group of left) {
      shared.opened.delete(group);
      shared.folded.add(group);
    }
    for (const group of entered) {
      shared.opened.add(group);
      shared.folded.delete(group);
    }
    return left.length + entered.length > 0;
  }

  // The box that stands for an op: a folded group around it, or its own.
  function visible(id) {
    return lookup(state.get().doc).ancestors(id).find((group) => shared.folded.has(group)) ?? id;
  }

  // A fold shows on both maps.
  function drawAll() {
    draw();
    shared.others.forEach((other, own) => own !== view && other.draw());
  }

  function draw() {
    const { doc, op } = state.get();
    const numbers = LEVELS[shared.level] === "numbers" && op ? visible(op) : null;
    view.scene = layOut(doc, shared.folded, measure, { opened: numbers, switches: widthOf });
    view.numbersOf = numbers;
    Object.assign(view, drawMap(view.scene, doc, shared.folded, switches));
    replace(stage, view.svg);
    fit();
    step();
    if (tools) {
      trace(false);
    }
  }

  // The path of the chosen number, along which it travels once it has been chosen.
  function trace(play) {
    const start = drawPath(view, state.get().doc, shownPath().places, visible);
    if (play && !still.matches) {
      start();
    }
  }

  function step() {
    const chosen = showStep(view, app, visible);
    paint(view.svg, app);
    setFocus(view.nodes.has(view.focus) ? view.focus : chosen ?? view.scene.boxes[0]?.id);
  }

  function fit() {
    const { width, height } = view.scene;
    const room = { w: Math.max(200, stage.clientWidth), h: Math.max(200, stage.clientHeight - 4) };
    const [least, natural, most] = state.get().large ? [2, 2, 2.4] : [0.8, 1, 1.15];      // large: no text below 24 px
    const across = Math.min(most, Math.max(least, room.w / width));
    const whole = room.h / height;                           // all of it is seen, if it can be read then; the rest scrolls
    const scale = whole < least ? Math.min(across, natural) : Math.min(across, whole);
    view.svg.setAttribute("width", width * scale);
    view.svg.setAttribute("height", height * scale);
  }

  // A group folds or unfolds; an op, a parameter or an input is shown in the panel, to which a small screen turns.
  function choose(id, parameter) {
    const look = lookup(state.get().doc);
    if (parameter) {
      state.update({ op: id, ref: parameter, view: "component" });
    } else if (look.group(id)) {
      toggle(id);
      state.update({ op: id, view: "component", at: state.get().at });
    } else if (look.op(id)) {
      state.update({ op: id, view: "component" });
    } else {
      state.update({ op: look.value(id).consumers[0]?.op, ref: id, view: "component" });
    }
    if (!look.group(id) && window.matchMedia(NARROW).matches) {
      state.update({ area: "panel" }, { replace: true });
    }
  }

  // Switches a part off, or on again; the step is computed anew, and the switch keeps the focus.
  async function toggleSwitch(chip) {
    const { edit } = chip.dataset;
    const wanted = JSON.parse(edit);
    await (actions.has(wanted) ? actions.remove(wanted) : actions.add(wanted));
    [...stage.querySelectorAll(".chip-switch")].find((other) => other.dataset.edit === edit)?.focus({ preventScroll: true });
  }

  function setFocus(id) {
    view.focus = id;
    for (const [other, { element }] of view.nodes) {
      element.setAttribute("tabindex", other === id ? "0" : "-1");
    }
  }

  function focusOn(id) {
    view.nodes.get(id)?.element.focus({ preventScroll: true });
    scrollTo(id);
  }

  function scrollTo(id) {
    const found = view.nodes.get(id);
    if (!found) {
      return;
    }
    const box = found.element.getBoundingClientRect();
    const area = stage.getBoundingClientRect();
    const around = area.width / 5;
    stage.scrollTop += outside(box.top - 60, box.bottom + 60, area.top, area.bottom);
    stage.scrollLeft += outside(box.left - around, box.right + around, area.left, area.right);
  }

  const idAt = (event) => {
    const element = event.target.closest(".node");
    return element ? element.dataset.op ?? element.dataset.valueId : null;
  };
  stage.addEventListener("click", (event) => {
    const fan = event.target.closest(".fan");
    const cell = event.target.closest(".map-cell");
    const chip = event.target.closest(".chip-switch");
    if (chip) {
      toggleSwitch(chip);
    } else if (cell) {
      state.update({ ref: cell.dataset.ref, index: cell.dataset.cell.split(",").filter(Boolean).map(Number) });
    } else if (fan) {
      state.update({ ref: gradientRef(fan.dataset.fan), view: "component" });
    } else if (idAt(event)) {
      choose(idAt(event), event.target.closest("[data-parameter]")?.dataset.parameter);
    }
  });
  stage.addEventListener("scroll", () => shared.others.forEach((other, own) => own !== view && other.scroll(stage)));
  stage.addEventListener("focusin", (event) => idAt(event) && setFocus(idAt(event)));
  stage.addEventListener("keydown", (event) => {
    const chip = event.target.closest(".chip-switch");
    if (chip && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      event.stopPropagation();
      toggleSwitch(chip);
      return;
    }
    if (idAt(event)) {
      handleKey(event, idAt(event), { view: { ...view, folded: shared.folded }, doc: state.get().doc, choose, toggle, focusOn });
    }
  });

  const scrolledTo = ({ scrollTop, scrollHeight, clientHeight }) => {
    const share = scrollTop / Math.max(1, scrollHeight - clientHeight);
    const wanted = Math.round(share * Math.max(0, stage.scrollHeight - stage.clientHeight));
    if (Math.abs(stage.scrollTop - wanted) > 1) {
      stage.scrollTop = wanted;
    }
  };
  shared.others.set(view, { draw, scroll: scrolledTo });
  if (tools) {
    onPath(({ play }) => trace(play));
    foldToFit();
    zoom.show(shared.level);
    if (state.get().op) {
      reveal(state.get().op, true);
    }
  }
  draw();
  scrollTo(visible(state.get().op ?? ""));
  new ResizeObserver(() => {
    fit();
    scrollTo(visible(state.get().op ?? ""));
  }).observe(stage);

  let painted = document.documentElement.dataset.theme;          // "auto" may change its colors while the state stays
  state.subscribe((now, before) => {
    if (document.documentElement.dataset.theme !== painted) {
      painted = document.documentElement.dataset.theme;
      paint(view.svg, app);
    }
    if (now.doc !== before.doc) {
      const known = new Set(before.doc.groups.map((group) => group.id));
      now.doc.groups.filter((group) => !known.has(group.id)).forEach((group) => shared.folded.add(group.id));
      draw();
    } else if (now.large !== before.large || now.theme !== before.theme || now.common !== before.common) {
      common.checked = now.common;
      draw();
    } else if (now.op !== before.op || now.at !== before.at) {
      if (now.op && (!now.stepped || follow.checked) && reveal(now.op, !now.stepped)) {
        draw();
      } else if (LEVELS[shared.level] === "numbers" && visible(now.op ?? "") !== view.numbersOf) {
        draw();
      } else {
        step();
      }
      scrollTo(visible(now.op ?? ""));
    }
  });
}

// How far to scroll so that [low, high] lies in [from, to]; its beginning counts if it is longer.
function outside(low, high, from, to) {
  if (low < from) {
    return low - from;
  }
  return high > to ? Math.min(high - to, low - from) : 0;
}

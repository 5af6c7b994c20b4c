// Semantic zoom: how much of the model the map unfolds, from the model as one box to the numbers of one operation.

import { h } from "explorer/dom";
import { lookup } from "explorer/lookup";
import { t } from "explorer/strings";

export const LEVELS = ["model", "blocks", "operations", "numbers"];
const PINCH = 60;                     // how far a wheel turns for one level

// The groups that are folded at a level.
export function foldedAt(doc, level) {
  const all = new Set(doc.groups.map((group) => group.id));
  if (level >= LEVELS.indexOf("operations")) {
    return new Set();
  }
  if (level === LEVELS.indexOf("model")) {
    return all;
  }
  const blocks = doc.groups.filter((group) => /block/i.test(group.class)).map((group) => group.id);
  const look = lookup(doc);
  const around = blocks.flatMap((id) => look.ancestors(id));
  const open = around.length > 0 ? around : doc.groups.filter(({ parent }) => !parent).map(({ id }) => id);
  open.forEach((id) => all.delete(id));
  return all;
}

// A slider with one stop for each level; a pinch, or the wheel with the Ctrl key, does the same. choose(level) is called for a new one.
export function zoomControl(stage, choose) {
  let turned = 0;
  const last = LEVELS.length - 1;
  const name = h("output", { class: "zoom-name", for: "zoom" });
  const slider = h("input", { type: "range", id: "zoom", min: 0, max: last, step: 1, "aria-label": t("zoom.name"),
    oninput: () => go(Number(slider.value)) });
  const show = (level) => {
    slider.value = level;
    name.textContent = t(`zoom.${LEVELS[level]}`);
    slider.setAttribute("aria-valuetext", name.textContent);
  };
  const go = (level) => {
    show(level);
    choose(level);
  };
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) {
      return;
    }
    event.preventDefault();
    turned += event.deltaY;
    const level = Number(slider.value) - Math.sign(turned);
    if (Math.abs(turned) > PINCH && level >= 0 && level <= last) {
      turned = 0;
      go(level);
    }
  }, { passive: false });
  return { element: h("label", { class: "zoom", title: t("zoom.help") }, slider, name), show };
}

// What a step changes on the map: only classes, names and the words at sums; nothing is drawn anew.

import { isRound } from "explorer/flows";
import { lookup } from "explorer/lookup";
import { lineClasses } from "explorer/map_lines";
import { formatNumber } from "explorer/format";
import { largestNorm, normOf } from "explorer/norms";
import { progressAt } from "explorer/progress";
import { t } from "explorer/strings";

const DECADES = 3;           // of norms that the width of a line tells apart

// visible(id): the box that stands for an op, which is a folded group around it or its own.
export function showStep({ scene, nodes }, { state, store }, visible) {
  const { doc, at, op } = state.get();
  const look = lookup(doc);
  const progress = progressAt(doc, at);
  const shown = { chosen: op ? visible(op) : null, running: progress.now ? visible(progress.now) : null };
  const leaves = leavesOf(doc, look);
  for (const [id, { element, box }] of nodes) {
    showNode(id, element, { look, progress, parts: leaves.get(id) ?? [], ...shown });
    if (box.type === "parameter") {
      const users = look.value(id).consumers.map((consumer) => consumer.op);
      element.classList.toggle("begun-backward", progress.phase !== "forward" && progress.gradientFrom(users) > 0);
    }
  }
  for (const line of scene.lines) {
    setClasses(line.element, lineClasses(line, progress, look));
    showNorm(line, doc, store, progress);
  }
  for (const fan of scene.fans) {
    showFan(fan, progress, look);
  }
  return shown.chosen;
}

function showNode(id, element, { look, progress, parts, chosen, running }) {
  const count = (phase) => parts.filter((part) => progress.done[phase].has(part)).length;
  const reached = count("backward") > 0 && progress.phase !== "forward";
  const withGradient = parts.filter((op) => look.stepOf(op, "backward") !== null).length;
  setClasses(element, {
    "done-forward": parts.length > 0 ? count("forward") === parts.length : progress.valueDone(id),
    "begun-forward": count("forward") > 0, "done-backward": reached && count("backward") === withGradient,
    "begun-backward": reached, now: id === running, chosen: id === chosen,
  });
  element.dataset.phase = progress.phase;
  element.setAttribute("aria-label", nameOf(look, id, { running, progress, count, parts, withGradient }));
  if (id === chosen) {
    element.setAttribute("aria-current", "true");
  } else {
    element.removeAttribute("aria-current");
  }
  for (const mark of element.querySelectorAll(":scope > .parameter")) {
    mark.classList.toggle("has-gradient", reached);
    mark.classList.toggle("moved", progress.phase === "optimizer");
  }
}

// Backward, a line is as wide as the norm of the gradient that flows along it is large: from a thousandth of the largest one on.
function showNorm({ element, value, consumers }, doc, store, progress) {
  const senders = [...consumers].filter((op) => progress.done.backward.has(op));
  const norm = progress.phase === "forward" ? 0 : normOf(doc, store, value, senders);
  element.style.setProperty("--width", norm > 0 ? String(widthOf(norm / largestNorm(doc, store))) : "");
  element.querySelector("title").textContent = [element.dataset.title, norm > 0 && t("map.norm", { norm: formatNumber(norm) })].filter(Boolean).join(", ");
}

function widthOf(share) {
  return 1 + 5 * Math.max(0, Math.min(1, 1 + Math.log10(share) / DECADES));
}

// Forward a value is copied at a fan; backward its gradients meet there and are added.
function showFan(fan, progress, look) {
  const branches = fan.branches.filter((ops) => ops.some((op) => look.stepOf(op, "backward") !== null));
  const arrived = branches.filter((ops) => progress.gradientFrom(ops) > 0).length;
  const shown = progress.phase !== "forward" && arrived > 0 && branches.length > 1;
  const flowing = progress.flow(fan.value, fan.branches.flat()) === "backward";
  setClasses(fan.element, { shown, complete: arrived === branches.length, flowing });
  const words = arrived === branches.length ? t("map.adds", { n: branches.length, count: branches.length })
    : t("map.adds_some", { count: arrived, of: branches.length });
  fan.text.textContent = shown && flowing ? words : "";
  fan.title.textContent = words;
}

// The ops in each group; an op is its own.
function leavesOf(doc, look) {
  const leaves = new Map();
  for (const op of doc.ops) {
    for (const id of [op.id, ...look.ancestors(op.id)]) {
      leaves.set(id, [...(leaves.get(id) ?? []), op.id]);
    }
  }
  return leaves;
}

function setClasses(element, classes) {
  for (const [name, on] of Object.entries(classes)) {
    element.classList.toggle(name, Boolean(on));
  }
}

// What a screen reader says: the label, the class, the group, and how far the step has come there.
function nameOf(look, id, { running, progress, count, parts, withGradient }) {
  const item = look.node(id);
  if (!item) {
    return look.value(id).title;
  }
  const symbol = t(item.kind === "add" ? "map.plus" : "map.times");
  const label = isRound(item) ? symbol : item.label;
  const kind = item.class && item.class !== label ? item.class : null;
  const around = look.ancestors(id).map((group) => look.group(group).label).join(", ");
  return [label, kind, around && t("map.inside", { place: around }), howFar()].filter(Boolean).join(", ");

  function howFar() {
    if (id === running) {
      return t(`map.now.${progress.phase}`);
    }
    if (withGradient > 0 && count("backward") === withGradient) {
      return t("map.done_backward");
    }
    return count("forward") === parts.length ? t("map.done_forward") : null;
  }
}

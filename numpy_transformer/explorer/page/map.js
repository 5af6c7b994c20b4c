// The map: the computation graph as nested boxes, drawn once for each set of folded groups; a step changes classes only.

import { button, h, replace, s } from "explorer/dom";
import { formatShape } from "explorer/format";
import { hasMask, inputLabel, isRound, layOut } from "explorer/layout";
import { lookup } from "explorer/lookup";
import { handleKey } from "explorer/map_keys";
import { progressAt } from "explorer/progress";
import { gradientRef } from "explorer/refs";
import { t } from "explorer/strings";
import { lineClasses, linePath } from "explorer/map_lines";

export function start(root, app) {
  const { state } = app;
  const view = { folded: null, scene: null, opened: new Set(), focus: null, svg: null, nodes: new Map(), whole: false };
  const stage = h("div", { class: "stage" });
  const follow = h("input", { type: "checkbox", id: "follow", checked: true });
  const whole = button(t("map.whole"), () => showWhole(!view.whole), { id: "map-whole", "aria-pressed": "false" });
  const wide = button(t("map.wide"), () => showWide(!document.body.hasAttribute("data-wide-map")), { id: "map-wide", "aria-pressed": "false" });
  replace(root,
    h("div", { class: "tools" },
      button(t("map.fold"), () => foldAll(true), { id: "fold-all" }), button(t("map.unfold"), () => foldAll(false), { id: "unfold-all" }),
      whole, wide, h("label", { class: "check", title: t("map.follow.help") }, follow, t("map.follow"))),
    stage, legend());

  function groups() {
    return state.get().doc.groups.map((group) => group.id);
  }

  function foldAll(folded) {
    view.folded = folded ? new Set(groups()) : new Set();
    view.opened.clear();
    drawScene();
  }

  function toggle(id) {
    if (view.folded.has(id)) {
      view.folded.delete(id);
    } else {
      view.folded.add(id);
      view.opened.delete(id);
    }
    view.focus = id;
    drawScene();
    focusOn(id);
  }

  function showWhole(on) {
    view.whole = on;
    whole.setAttribute("aria-pressed", String(on));
    fit();
  }

  function showWide(on) {
    document.body.toggleAttribute("data-wide-map", on);
    wide.setAttribute("aria-pressed", String(on));
  }

  // A choice shows the box: the groups around it unfold. What was unfolded for an earlier step folds again.
  function reveal(id, keepOthers) {
    const { doc } = state.get();
    const around = new Set(lookup(doc).ancestors(id));
    let changed = false;
    if (!keepOthers) {
      for (const group of [...view.opened].filter((other) => !around.has(other) && other !== id)) {
        view.folded.add(group);
        view.opened.delete(group);
        changed = true;
      }
    }
    for (const group of around) {
      if (view.folded.has(group)) {
        view.folded.delete(group);
        view.opened.add(group);
        changed = true;
      }
    }
    return changed;
  }

  function visible(id) {
    const around = lookup(state.get().doc).ancestors(id);
    return around.find((group) => view.folded.has(group)) ?? id;
  }

  function drawScene() {
    const { doc } = state.get();
    view.scene = layOut(doc, view.folded, measure);
    view.nodes.clear();
    const { boxes, lines, fans } = view.scene;
    const look = lookup(doc);
    const frames = boxes.filter((box) => box.type === "frame");
    const others = boxes.filter((box) => box.type !== "frame");
    view.svg = s("svg", { role: "tree", "aria-label": t("map.name"), class: "map", viewBox: `0 0 ${view.scene.width} ${view.scene.height}` },
      markers(),
      frames.map((box) => frame(box, look)), lines.map(drawLine), others.map((box) => node(box, look)), fans.map(drawFan));
    replace(stage, view.svg);
    fit();
    drawStep();
  }

  function fit() {
    const { width, height } = view.scene;
    const room = { w: Math.max(200, stage.clientWidth), h: Math.max(200, stage.clientHeight - 4) };
    const [least, natural, most] = state.get().large ? [2, 2, 2.4] : [0.8, 1, 1.15];      // large: no text below 24 px
    let scale = Math.min(most, Math.max(least, room.w / width));
    scale = Math.max(Math.min(scale, natural), Math.min(scale, room.h / height));         // above natural only if all of it fits
    if (view.whole) {
      scale = Math.min(scale, room.h / height, room.w / width);
    }
    view.svg.setAttribute("width", width * scale);
    view.svg.setAttribute("height", height * scale);
    view.scale = scale;
  }

  function frame(box, look) {
    const group = look.group(box.id);
    const element = s("g", { class: `frame node depth-${box.depth % 2}`, "data-op": box.id, transform: `translate(${box.x} ${box.y})`, ...treeItem(box, look) },
      s("rect", { class: "shape", width: box.w, height: box.h, rx: 8 }),
      s("text", { x: box.titleX, y: 17 }, s("tspan", { class: "sign", "aria-hidden": "true" }, "▾ "), group.label));
    return register(element, box);
  }

  function node(box, look) {
    const item = look.node(box.id);
    const value = item ? null : look.value(box.id);
    const label = item ? item.label : inputLabel(value);
    const kind = item?.kind ?? box.type;
    const shape = box.type === "round"
      ? s("circle", { class: "shape", cx: box.w / 2, cy: box.h / 2, r: box.w / 2 - 1 })
      : s("rect", { class: "shape", width: box.w, height: box.h, rx: box.type === "input" ? box.h / 2 : 6 });
    const parameters = Object.entries(item?.parameters ?? {});
    const marks = parameters.slice(0, 3).map(([name, id], i) => s("rect", {
      class: "parameter", "data-parameter": id, x: box.w - 11 - 9 * i, y: box.h / 2 - 3, width: 6, height: 6,
    }, s("title", {}, name)));
    const middle = (box.w - 9 * marks.length) / 2;
    const symbol = kind === "multiply" ? "×" : "+";
    const element = s("g", { class: `node ${box.type} kind-${kind.replace(/\s+/g, "-")}`, "data-op": item ? box.id : null,
                             "data-value-id": item ? null : box.id, transform: `translate(${box.x} ${box.y})`, ...treeItem(box, look) },
      !item && s("title", {}, value.title), shape,
      box.type === "group" && s("rect", { class: "progress", width: 4, height: box.h - 2, x: 1, y: 1, rx: 2 }),
      s("text", { x: box.type === "round" ? box.w / 2 : middle, y: box.h / 2, "dominant-baseline": "central", "text-anchor": "middle" },
        box.type === "group" && s("tspan", { class: "sign", "aria-hidden": "true" }, "▸ "), box.type === "round" ? symbol : label,
        box.type === "op" && hasMask(item) && s("tspan", { class: "mask", dx: 6 }, t("map.mask"))),
      marks);
    return register(element, box);
  }

  function register(element, box) {
    view.nodes.set(box.id, { element, box });
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      choose(box.id, event.target.dataset?.parameter);
    });
    element.addEventListener("dblclick", () => lookup(state.get().doc).group(box.id) && toggle(box.id));
    element.addEventListener("focus", () => setFocus(box.id));
    element.addEventListener("keydown", (event) => {
      if (event.target === element) {
        handleKey(event, box.id, { view, doc: state.get().doc, choose, toggle, focusOn });
      }
    });
    return element;
  }

  function treeItem(box, look) {
    const isGroup = Boolean(look.group(box.id));
    return { role: "treeitem", tabindex: -1, "aria-level": look.ancestors(box.id).length + 1,
             "aria-expanded": isGroup ? String(!view.folded.has(box.id)) : null };
  }

  // A group folds or unfolds when it is chosen a second time; a click on its sign does both at once.
  function choose(id, parameter) {
    const look = lookup(state.get().doc);
    const now = state.get();
    if (parameter) {
      state.update({ op: id, ref: parameter, view: "component" });
    } else if (look.group(id)) {
      toggle(id);
      state.update({ op: id, view: "component", at: now.at });
    } else if (look.op(id)) {
      state.update({ op: id, view: "component" });
    } else {
      state.update({ op: look.value(id).consumers[0]?.op, ref: id, view: "component" });
    }
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
    if (!found || view.whole) {
      return;
    }
    const box = found.element.getBoundingClientRect();
    const area = stage.getBoundingClientRect();
    stage.scrollTop += outside(box.top - 60, box.bottom + 60, area.top, area.bottom);
    const around = area.width / 5;
    stage.scrollLeft += outside(box.left - around, box.right + around, area.left, area.right);
  }

  function drawLine(line) {
    const value = lookup(state.get().doc).value(line.value);
    line.element = s("path", { class: "line", d: linePath(line), "data-line": line.value },
      s("title", {}, `${value.title}: ${formatShape(value.shape)}`));
    return line.element;
  }

  function drawFan(fan) {
    fan.text = s("text", { x: 10, y: -12, "dominant-baseline": "central" });
    fan.title = s("title");
    fan.element = s("g", { class: "fan", "data-fan": fan.value, onclick: () => state.update({ ref: gradientRef(fan.value), view: "component" }), transform: `translate(${fan.x} ${fan.y})` },
      s("circle", { r: 6.5 }), s("path", { d: "M-3 0H3M0 -3V3" }), fan.text, fan.title);
    return fan.element;
  }

  function drawStep() {
    const { doc, at, op } = state.get();
    const look = lookup(doc);
    const progress = progressAt(doc, at);
    const chosen = op ? visible(op) : null;
    const running = progress.now ? visible(progress.now) : null;
    const leaves = leavesOf(doc, look);
    for (const [id, { element, box }] of view.nodes) {
      const parts = leaves.get(id) ?? [];
      const count = (phase) => parts.filter((part) => progress.done[phase].has(part)).length;
      const reached = count("backward") > 0 && progress.phase !== "forward";
      setClasses(element, {
        "done-forward": parts.length > 0 ? count("forward") === parts.length : progress.valueDone(id),
        "begun-forward": count("forward") > 0, "done-backward": reached && count("backward") === backwardParts(look, parts),
        "begun-backward": reached, now: id === running, chosen: id === chosen,
      });
      element.dataset.phase = progress.phase;
      element.setAttribute("aria-label", nameOf(look, id, { running, progress, count, parts }));
      if (id === chosen) {
        element.setAttribute("aria-current", "true");
      } else {
        element.removeAttribute("aria-current");
      }
      for (const mark of element.querySelectorAll(":scope > .parameter")) {
        mark.classList.toggle("has-gradient", reached);
        mark.classList.toggle("moved", progress.phase === "optimizer");
      }
      if (box.type === "parameter") {
        const users = look.value(id).consumers.map((consumer) => consumer.op);
        element.classList.toggle("begun-backward", progress.phase !== "forward" && progress.gradientFrom(users) > 0);
      }
    }
    for (const line of view.scene.lines) {
      setClasses(line.element, lineClasses(line, progress, look));
      line.element.setAttribute("d", linePath(line, line.element.classList));
    }
    for (const fan of view.scene.fans) {
      drawFanStep(fan, progress, look);
    }
    setFocus(view.nodes.has(view.focus) ? view.focus : chosen ?? view.scene.boxes[0]?.id);
  }

  // Forward a value is copied at a fan; backward its gradients meet there and are added.
  function drawFanStep(fan, progress, look) {
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

  function firstFolding() {
    const { doc } = state.get();
    view.folded = new Set(doc.groups.map((group) => group.id));
    const height = Math.max(400, stage.clientHeight - 8);
    const inOrder = [...doc.groups].sort((a, b) => lookup(doc).ancestors(a.id).length - lookup(doc).ancestors(b.id).length);
    for (const group of inOrder.filter((other) => !view.folded.has(other.parent))) {
      view.folded.delete(group.id);
      const scene = layOut(doc, view.folded, measure);
      if (scene.height > height || scene.width * 0.8 > stage.clientWidth) {
        view.folded.add(group.id);
      }
    }
    if (state.get().op) {
      reveal(state.get().op, true);
    }
  }

  firstFolding();
  drawScene();
  if (state.get().op) {
    scrollTo(visible(state.get().op));
  }
  new ResizeObserver(() => {
    fit();
    scrollTo(visible(state.get().op ?? ""));
  }).observe(stage);

  state.subscribe((now, before) => {
    if (now.doc !== before.doc) {
      const known = new Set(before.doc?.groups.map((group) => group.id));
      now.doc.groups.filter((group) => !known.has(group.id)).forEach((group) => view.folded.add(group.id));
      drawScene();
    } else if (now.large !== before.large) {
      drawScene();
    } else if (now.op !== before.op || now.at !== before.at) {
      const stepped = now.at !== before.at && now.op === now.doc.steps[now.at]?.op;
      const changed = now.op && (!stepped || follow.checked) && reveal(now.op, !stepped);
      if (changed) {
        drawScene();
      } else {
        drawStep();
      }
      if (now.op) {
        scrollTo(visible(now.op));
      }
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

function leavesOf(doc, look) {
  const leaves = new Map();
  for (const op of doc.ops) {
    for (const id of [op.id, ...look.ancestors(op.id)]) {
      leaves.set(id, [...(leaves.get(id) ?? []), op.id]);
    }
  }
  return leaves;
}

function backwardParts(look, parts) {
  return parts.filter((op) => look.stepOf(op, "backward") !== null).length;
}

function setClasses(element, classes) {
  for (const [name, on] of Object.entries(classes)) {
    element.classList.toggle(name, Boolean(on));
  }
}

// What a screen reader says: the label, the class, the group, and how far the step has come there.
function nameOf(look, id, { running, progress, count, parts }) {
  const item = look.node(id);
  if (!item) {
    return look.value(id).title;
  }
  const label = isRound(item) ? t(item.kind === "add" ? "map.plus" : "map.times") : item.label;
  const around = look.ancestors(id).map((group) => look.group(group).label).join(", ");
  const place = around ? t("map.inside", { place: around }) : "";
  const doneKey = (count("backward") === parts.length && "map.done_backward") || (count("forward") === parts.length && "map.done_forward");
  const how = id === running ? t(`map.now.${progress.phase}`) : doneKey && t(doneKey);
  return [label === item.class ? label : `${label}${item.class ? `, ${item.class}` : ""}`, place, how].filter(Boolean).join(", ");
}

let canvas = null;

function measure(text, small = false) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = `${small ? 12 : 14}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

function markers() {
  return s("defs", {}, ["line", "forward", "backward"].map((name) => s("marker", {
    id: `arrow-${name}`, class: `arrow-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
    orient: "auto-start-reverse", markerUnits: "userSpaceOnUse",
  }, s("path", { d: "M0 0.5 8 4 0 7.5Z" }))));
}

function legend() {
  return h("p", { class: "legend note" },
    h("span", { class: "key forward" }, t("map.legend.forward")), h("span", { class: "key backward" }, t("map.legend.backward")),
    h("span", { class: "key mark" }, t("map.legend.parameter")));
}

// The panel of one component: its name, its formulas, its arrays with their gradients side by side, and its source. A group
// shows what goes in and comes out, and its parts as links.

import { h, replace } from "explorer/dom";
import { t } from "explorer/strings";
import { arrayPair } from "explorer/array_pair";
import { componentHead } from "explorer/component_head";
import { exists } from "explorer/existing";
import { redrawAll } from "explorer/heatmap";
import { opLink } from "explorer/links";
import { onLight } from "explorer/highlighted_cells";
import { lookup } from "explorer/lookup";
import { contributionRef, gradientRef, parseRef, slotName } from "explorer/refs";
import { sourceOf } from "explorer/source";

export function start(root, app) {
  const { state } = app;
  const held = {}; // chosen entries by the name of their axis: one head for all arrays of the panel
  let pairs = [];
  let source = null;
  let shown = ""; // which arrays of the component exist
  let theme = lookOf(state.get());

  function draw(now) {
    const item = now.doc && now.op ? lookup(now.doc).node(now.op) : null;
    pairs = [];
    if (!item) {
      replace(root, h("p", { class: "note" }, t("panel.empty")));
      return;
    }
    takeSlices(now, held);
    pairs = pairsOf(app, item, held, hold);
    shown = existingIn(now);
    source = h("div", { class: "source-place" });
    const isGroup = Boolean(lookup(now.doc).group(item.id));
    replace(
      root,
      h(
        "article",
        { class: "component", "data-op": item.id },
        componentHead(app, item, isGroup),
        ...rowsByRole(pairs),
        isGroup && partsOf(app, item),
        source,
      ),
    );
    mark(now);
    showChosen(pairs);
  }

  // The chosen cell may stand in an array further down. Its place is known when all heatmaps have been drawn.
  async function showChosen(drawn) {
    await Promise.all(drawn.flatMap((pair) => pair.maps.map(({ map }) => map.ready)));
    const figure = drawn === pairs && root.querySelector(".has-chosen");
    if (figure) figure.closest(".array-row").scrollIntoView({ block: "nearest" });
  }

  // Another component is read from its head, however far down the last one was read.
  function toTop() {
    root.closest("#panel").scrollTop = 0;                      // the tabs stay in sight in any case
  }

  function mark(now) {
    pairs.forEach((pair) => pair.mark(now.ref, now.index));
    const item = lookup(now.doc).node(now.op);
    if (item && source) replace(source, sourceOf(now.doc, item, now.ref));
    pairs.forEach((pair) => pair.light());
  }

  function hold(name, i) {
    held[name] = i;
    pairs.forEach((pair) => pair.hold(name, i));
    const { ref } = state.get();
    const chosen = pairs.find((pair) => pair.maps.some((map) => map.ref === ref));
    if (chosen) state.update({ slices: { ...state.get().slices, [ref]: chosen.view.fixed } }, { replace: true });
  }

  draw(state.get());
  onLight(() => pairs.forEach((pair) => pair.light()));
  state.subscribe((now, before) => {
    if (now.op !== before.op || now.doc !== before.doc || existingIn(now) !== shown) {
      draw(now);
      if (now.op !== before.op && now.view === "component") toTop();
    } else if (now.ref !== before.ref || String(now.index) !== String(before.index)) {
      mark(now);
      showChosen(pairs);
    }
    const look = lookOf(now);
    if (look !== theme) {
      theme = look;
      draw(now);
      redrawAll();
    }
  });
}

// What a step forward or backward on the time line adds to the panel.
function existingIn(now) {
  const touched = now.doc && now.op ? lookup(now.doc).touches(now.op) : [];
  const parts = touched.flatMap((id) => [id, gradientRef(id), contributionRef(id, now.op, slotName(lookup(now.doc).node(now.op), id))]);
  return parts.filter((ref) => now.doc.arrays[ref] && exists(now, ref)).join();
}

function lookOf({ common }) {
  return `${document.documentElement.dataset.theme} ${document.documentElement.className} ${common}`;
}

// An address may say which entries of the other axes it means.
function takeSlices({ doc, ref, slices }, held) {
  const chosen = ref && slices ? slices[ref] : null;
  const value = chosen ? lookup(doc).value(parseRef(ref).value) : null;
  if (!value) return;
  Object.entries(chosen).forEach(([axis, i]) => {
    held[value.axes[axis].name] = i;
  });
}

function pairsOf(app, item, held, onHold) {
  const { doc } = app.state.get();
  const op = lookup(doc).op(item.id);
  const roles = [
    ["input", item.inputs],
    ["parameter", item.parameters],
    ["output", item.outputs],
  ];
  return roles
    .flatMap(([role, slots]) =>
      Object.entries(slots || {}).flatMap(([name, ids]) =>
        [ids]
          .flat()
          .map((id) => lookup(doc).value(id))
          .filter((value) => value && app.store.info(value.id))
          .map((value) => ({ app, value, role, name, op, held, onHold })),
      ),
    )
    .map((options, i) => arrayPair({ ...options, hint: i === 0 }));
}

function rowsByRole(pairs) {
  return ["input", "parameter", "output"].map((role) => {
    const mine = pairs.filter((pair) => pair.role === role);
    if (!mine.length) return null;
    return h(
      "section",
      { class: "array-group" },
      h("h3", {}, t(`component.${role}s`)),
      mine.map((pair) => pair.element),
    );
  });
}

function partsOf(app, group) {
  const parts = lookup(app.state.get().doc).children(group.id);
  return h(
    "section",
    { class: "parts" },
    h("h3", {}, t("component.parts")),
    h(
      "ul",
      {},
      parts.map((part) => h("li", {}, opLink(app, part), " ", h("span", { class: "note" }, part.class || part.kind))),
    ),
  );
}

// Two steps side by side: the step as it was on a second map, which folds, scrolls and follows the time line as the first one does.

import { button, h, replace } from "explorer/dom";
import { editTitle } from "explorer/edit_list";
import { lookup } from "explorer/lookup";
import { startMap } from "explorer/map";
import { t } from "explorer/strings";

export function start(root, app) {
  const { state } = app;
  const title = h("p", { class: "map-title" });
  const place = h("div", { class: "map-place" });
  const other = document.getElementById("map-title");
  let started = false;

  async function draw(now) {
    const two = now.two && now.base !== now.doc && Boolean(now.base);
    document.body.toggleAttribute("data-two", two);
    if (!two) {
      replace(other);
      return;
    }
    const edits = now.edits.filter(({ kind }) => kind !== "text").map((edit) => editTitle(edit, now.doc.hands_on));
    replace(title, h("b", {}, t("two.before")), h("span", { class: "note" }, t("two.loss", { loss: now.base.loss.toFixed(4) })));
    replace(other, h("b", {}, edits.join(", ")), h("span", { class: "note" }, t("two.loss", { loss: now.doc.loss.toFixed(4) })),
      button(t("two.close"), () => state.update({ two: false }, { replace: true }), { class: "small", id: "two-close" }));
    if (!started) {
      started = true;
      replace(root, title, place);
      startMap(place, mirror(app), { tools: false });
    }
  }
  draw(state.get());
  state.subscribe((now, before) => {
    if (now.two !== before.two || now.doc !== before.doc || now.base !== before.base) {
      draw(now);
    }
  });
}

// The same page with the step as it was in the place of the present one, at the same moment.
function mirror(app) {
  const { state } = app;
  const seen = (now) => (now.base ? { ...now, doc: now.base, at: sameMoment(now) } : now);
  return { ...app, state: { ...state, get: () => seen(state.get()), subscribe: (listener) => state.subscribe((now, before) => listener(seen(now), seen(before))) } };
}

// The step of the time line at which the other document runs the same operation; its share of the way where it has none of that name.
function sameMoment({ doc, base, at }) {
  const { phase, op } = doc.steps[at] ?? {};
  const same = phase === "optimizer" ? lookup(base).steps.optimizer : op && lookup(base).stepOf(op, phase);
  return Number.isInteger(same) && same >= 0 ? same : Math.round((at * (base.steps.length - 1)) / Math.max(1, doc.steps.length - 1));
}

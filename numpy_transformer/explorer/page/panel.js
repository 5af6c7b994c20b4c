// What the panels have in common: redrawing without losing the focus, and ignoring answers that come too late.

import { h } from "explorer/dom";

/**
 * Returns a function that redraws root. `build()` returns (a promise of) the new children; if it is called again before
 * the earlier call has finished, the earlier one's result is dropped. What had the focus gets it again: elements are
 * recognized by their data-key.
 */
export function redrawer(root, build, failed) {
  let latest = 0;
  return async () => {
    const number = (latest += 1);
    let children;
    try {
      children = await build();
    } catch (error) {
      children = failed(error);
    }
    if (number !== latest || !children) return;
    const key = root.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    const scroll = root.scrollTop;
    root.replaceChildren(...children.filter(Boolean));
    root.scrollTop = scroll;
    const again = key && root.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (again) again.focus({ preventScroll: true });
  };
}

/** Calls draw now and whenever one of the named entries of the state changes, but only while the panel's view is shown. */
export function drawWhen(app, view, names, draw) {
  let seen = null;
  const look = (now) => {
    if (now.view !== view || !now.doc) return;
    const values = [...names.map((name) => now[name]), document.documentElement.dataset.theme];
    const changed = !seen || values.some((value, i) => value !== seen[i]);
    seen = values;
    if (changed) draw();
  };
  app.state.subscribe(look);
  look(app.state.get());
}

/**
 * A labeled list to choose from: options are [value, text] or [value, text, heading], and choose gets the value itself.
 * Options with the same heading must stand together.
 */
export function selectField(label, key, options, value, choose) {
  const list = h("select", { "data-key": key, onchange: () => choose(options[list.selectedIndex][0]) });
  let heading = null;
  let place = list;
  for (const [name, text, group] of options) {
    if (group && group !== heading) {
      place = h("optgroup", { label: group });
      list.append(place);
      heading = group;
    }
    place.append(h("option", { value: name, selected: name === value }, text));
  }
  return h("label", { class: "choice" }, h("span", {}, label), list);
}

/** A text whose parts between backticks are code, as children of an element. */
export function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** A sentence about something that went wrong, as the panel's content. */
export function problem(error) {
  return [h("p", { class: "problem", role: "alert" }, error.message)];
}

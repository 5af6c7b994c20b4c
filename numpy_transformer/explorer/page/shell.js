// What surrounds the panels: texts of index.html, tabs, breadcrumb, status bar, theme, and one area at a time on small screens.

import { button, h, replace } from "explorer/dom";
import { lookup } from "explorer/lookup";
import { isGradient, parseRef, shortName, slotName, valueOf } from "explorer/refs";
import { t } from "explorer/strings";

const VIEWS = ["component", "attention", "predictions", "ranking", "hands-on"];
const AREAS = ["map", "panel", "number"];

export function start(body, app) {
  const { state } = app;
  for (const element of body.querySelectorAll("[data-text]")) {
    element.textContent = t(element.dataset.text);
  }
  for (const element of body.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", t(element.dataset.label));
  }
  for (const link of body.querySelectorAll("[data-skip]")) {
    link.addEventListener("click", (event) => skip(event, link.dataset.skip, app));
  }
  startTabs(app);
  startAreas(app);
  state.subscribe((now, before) => {
    drawTheme(now);
    drawStatus(now, app);
    drawTrail(now, app);
    if (now.view !== before.view) {
      drawTabs(now);
    }
    if (now.area !== before.area) {
      drawAreas(now);
    }
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawTheme(state.get());
    state.update({}, { replace: true });
  });
  drawTheme(state.get());
  drawTabs(state.get());
  drawAreas(state.get());
}

// A skip link moves the focus; it must not change the address, which holds the place.
function skip(event, id, { state }) {
  event.preventDefault();
  const area = id === "map" || id === "timeline" ? "map" : id;
  state.update({ area }, { replace: true });
  const target = document.getElementById(id === "number" ? "number-area" : id);
  target.focus();
}

function startTabs({ state }) {
  const tabs = document.getElementById("tabs");
  for (const view of VIEWS) {
    tabs.append(button(t(`panel.${view}`), () => state.update({ view }), {
      id: `tab-${view}`, role: "tab", "aria-controls": `view-${view}`, "data-view": view,
    }));
  }
  tabs.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) {
      event.preventDefault();
      event.stopPropagation();
      const next = VIEWS[(VIEWS.indexOf(state.get().view) + move + VIEWS.length) % VIEWS.length];
      state.update({ view: next });
      document.getElementById(`tab-${next}`).focus();
    }
  });
}

function drawTabs({ view }) {
  const chosen = VIEWS.includes(view) ? view : "component";
  document.getElementById("panel").scrollTop = 0;          // another view begins at its top
  for (const name of VIEWS) {
    const tab = document.getElementById(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === chosen));
    tab.tabIndex = name === chosen ? 0 : -1;
    document.getElementById(`view-${name}`).hidden = name !== chosen;
  }
}

const NARROW = "(max-width: 899px)";

// Below 900 px one area is visible at a time (the style sheet decides); choosing a cell or a view leads to its area.
function startAreas({ state }) {
  const bar = document.getElementById("areas");
  for (const area of AREAS) {
    bar.append(button(t(`areas.${area}`), () => state.update({ area }, { replace: true }), { "data-to": area }));
  }
  state.subscribe((now, before) => {
    if (now.index && JSON.stringify(now.index) !== JSON.stringify(before.index) && before.doc) {
      state.update({ area: "number" }, { replace: true });
    } else if (now.view !== before.view && before.doc) {
      state.update({ area: "panel" }, { replace: true });
    }
  });
  const { view, area } = state.get();
  if (VIEWS.indexOf(view) > 0 && area === "map" && window.matchMedia(NARROW).matches) {
    state.update({ area: "panel" }, { replace: true });      // a link to a view leads there
  }
}

function drawAreas({ area }) {
  document.body.dataset.area = area;
  for (const choice of document.querySelectorAll("#areas button")) {
    choice.setAttribute("aria-pressed", String(choice.dataset.to === area));
  }
}

function drawStatus({ problem, busy }, { state }) {
  const bar = document.getElementById("status");
  document.body.toggleAttribute("data-busy", busy);
  const shown = bar.dataset.problem ?? "";
  if (shown === (problem ?? "")) {
    return;
  }
  bar.hidden = !problem;
  bar.dataset.problem = problem ?? "";
  replace(bar, problem && [
    h("span", {}, problem),
    button("×", () => state.update({ problem: null }, { replace: true }), { label: t("status.close") }),
  ]);
}

function drawTheme({ theme, large }) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const automatic = dark ? "dark" : "light";
  document.documentElement.dataset.theme = theme === "auto" ? automatic : theme;
  document.documentElement.classList.toggle("large", Boolean(large));
  document.body.classList.toggle("large", Boolean(large));
}

// The style sheet keeps the room of this line from the start.
function drawTrail({ doc }, { state }) {
  const { places, position } = state.places();
  const nav = document.getElementById("trail");
  if (!doc || position === 0) {
    replace(nav);
    return;
  }
  const first = Math.max(0, position - 3);
  const links = places.slice(first, position + 1).map((place, i) => {
    const text = placeTitle(doc, place);
    const here = first + i === position;
    return here ? h("span", { "aria-current": "location", title: text }, text) : button(text, () => state.go(first + i), { class: "link", title: text });
  });
  replace(nav, button("←", () => state.back(), { label: t("trail.back"), class: "quiet" }),
          h("span", {}, t("trail.visited")), links.map((link, i) => [i > 0 && h("span", { class: "divider", "aria-hidden": "true" }, "·"), link]));
}

// What the component at this place calls the array.
function nameAt(doc, ref, op) {
  const node = lookup(doc).node(op);
  const slot = node ? slotName(node, parseRef(ref).value) : null;
  return slot ? `${isGradient(ref) ? "d" : ""}${slot}` : shortName(doc, ref);
}

function placeTitle(doc, { op, ref, index, view }) {
  if (view !== "component") {
    return t(`panel.${view}`);
  }
  const label = lookup(doc).node(op)?.label ?? t("map.name");
  if (ref && valueOf(doc, ref)) {
    const name = nameAt(doc, ref, op);
    return `${label}: ${index ? `${name}[${index.join(", ")}]` : name}`;
  }
  return label;
}

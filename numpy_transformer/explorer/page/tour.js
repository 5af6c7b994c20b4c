// A tour through one training step, in at most eight stations. It is offered on the first visit, and can be left and
// repeated at any time. It stands above the panels and covers nothing: the reader can try things between two stations.

import { button, h, replace } from "explorer/dom";
import { t } from "explorer/strings";
import { formatNumber } from "explorer/format";
import { withCode } from "explorer/panel";
import { stationsOf } from "explorer/stations";

const SEEN = "numpy-transformer-explorer-tour";
const RATE = 0.01;                            // of the SGD step at the last station

export function start(root, app) {
  const tour = { root, app, stations: [], at: 0 };
  const opener = document.getElementById("tour-start");
  if (opener) opener.addEventListener("click", () => begin(tour));
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end(tour);
  });
  if (isFirstVisit()) invite(tour);
}

/** True if the page was opened without an address into it, and the browser can remember that the tour was offered. */
function isFirstVisit() {
  const place = window.location.hash.length > 1 || document.body.dataset.start;
  try {
    return !place && window.localStorage.getItem(SEEN) === null;
  } catch (error) {
    return false;                             // pages in a frame may not remember anything
  }
}

function remember() {
  try {
    window.localStorage.setItem(SEEN, "1");
  } catch (error) {
    // The tour will be offered again; nothing is lost.
  }
}

function invite(tour) {
  replace(tour.root, h("div", { class: "tour-line", role: "region", "aria-label": t("tour.title") },
    h("p", {}, h("strong", {}, t("tour.title")), " ", t("tour.invitation")),
    button(t("tour.start"), () => begin(tour), { class: "primary", id: "tour-begin" }),
    button(t("tour.not_now"), () => end(tour), { class: "quiet", id: "tour-skip" })));
}

async function begin(tour) {
  remember();
  tour.stations = await stationsOf(tour.app);
  goTo(tour, 0);
}

function end(tour) {
  remember();
  const inside = tour.root.contains(document.activeElement);
  replace(tour.root);
  if (inside) document.getElementById("tour-start")?.focus();
}

function goTo(tour, at) {
  const { app, stations } = tour;
  const station = stations[at];
  tour.at = at;
  if (station.place.ref) app.state.update({ ref: null, index: null }, { replace: true });
  app.state.update(station.place);
  app.state.update({ area: "panel" }, { replace: true });      // on a small screen, one area is visible at a time
  const last = at === stations.length - 1;
  const actions = [
    at > 0 && button(t("tour.back"), () => goTo(tour, at - 1), { class: "quiet" }),
    last ? button(t("tour.done"), () => end(tour), { class: station.step ? null : "primary", id: "tour-done" })
      : button(t("tour.next"), () => goTo(tour, at + 1), { class: "primary", id: "tour-next" }),
    !last && button(t("tour.leave"), () => end(tour), { class: "quiet", id: "tour-leave" }),
  ];
  const body = [h("p", {}, withCode(t(`tour.${station.key}`, station.numbers))), station.step && stepButton(tour)];
  const title = t(`tour.${station.key}.title`);
  const card = show(tour, title, body, actions, t("tour.station", { at: at + 1, of: stations.length }));
  card.dataset.station = station.key;
  card.querySelector(".primary, #tour-done").focus();
}

/** The last station's one step of SGD, with the loss before and after. */
function stepButton({ app }) {
  const result = h("span", { role: "status", class: "number" });
  const take = button(t("tour.take_step"), async () => {
    const { doc, edits } = app.state.get();
    take.disabled = true;
    try {
      const after = await app.store.edit([...edits, { kind: "step", optimizer: "sgd", lr: RATE }]);
      result.textContent = t("tour.step_taken", { before: formatNumber(doc.loss, 4), after: formatNumber(after.loss, 4) });
    } catch (error) {
      result.textContent = error.message;
    }
    take.disabled = false;
  }, { class: "primary", id: "tour-step" });
  return h("div", { class: "now" }, take, result);
}

function show({ root }, title, body, actions, count) {
  const card = h("div", { class: "tour-card", role: "dialog", "aria-labelledby": "tour-title" },
    h("div", { class: "tour-text" }, h("h2", { id: "tour-title" }, title), h("span", { class: "note number" }, count), body),
    h("div", { class: "tour-actions" }, actions));
  replace(root, card);
  return card;
}

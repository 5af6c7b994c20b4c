// The path of the chosen number as a list in its panel: what it becomes on its way to the loss, and which gradients come back.

import { button, h } from "explorer/dom";
import { exists } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { numberLink, opLink } from "explorer/links";
import { lookup } from "explorer/lookup";
import { pathToLoss, reachesLoss } from "explorer/path";
import { gradientRef, parseRef } from "explorer/refs";
import { showPath } from "explorer/shown_path";
import { t } from "explorer/strings";

// The places of the path with their numbers; none where the number has no path, or backward has not come to it yet.
export async function pathOf(app, ref, index) {
  const { doc } = app.state.get();
  const { kind, value } = parseRef(ref);
  const gradient = gradientRef(value ?? "");
  if (!["value", "gradient"].includes(kind) || !doc.arrays[gradient] || !exists(app.state.get(), gradient)) {
    return [];
  }
  const path = await pathToLoss(app, value, index);
  if (!reachesLoss(doc, path)) {
    return [];
  }
  const numberAt = async (name, at) => Number((await app.store.slice(name, at)).data[0]);
  return Promise.all(path.map(async (place) => ({ ...place, number: await numberAt(place.value, place.index),
    gradient: await numberAt(gradientRef(place.value), place.index) })));
}

export function pathList(app, places) {
  const { doc } = app.state.get();
  const rows = places.map(({ value, index, number, gradient }) => {
    const found = lookup(doc).value(value);
    const maker = found.producer ? lookup(doc).op(found.producer) : null;
    return h("tr", {}, h("th", { scope: "row" }, maker ? opLink(app, maker) : found.title),
      h("td", {}, numberLink(app, value, index, number, formatNumber(number, 2))),
      h("td", {}, numberLink(app, gradientRef(value), index, gradient, formatNumber(gradient, 2))));
  });
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  return h("details", { class: "path-list" }, h("summary", {}, t("path.title")),
    h("p", { class: "note" }, t("path.note")),
    !still && button(t("path.watch"), () => showPath(places, true), { class: "small", id: "watch-path" }),
    h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col", class: "is-value" }, t("path.value")),
      h("th", { scope: "col", class: "is-gradient" }, t("path.gradient")))), h("tbody", {}, rows)));
}

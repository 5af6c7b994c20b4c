// How large the gradients are: all arrays whose gradient backward has computed so far, the largest first.

import { h } from "explorer/dom";
import { largestAt, unravel } from "explorer/array_view";
import { bars } from "explorer/bars";
import { exists, existsFrom } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { largestIn } from "explorer/noise";
import { notYet } from "explorer/not_yet";
import { drawWhen, problem, redrawer, selectField } from "explorer/panel";
import { gradientRef } from "explorer/refs";
import { saveButton } from "explorer/svg_export";
import { t } from "explorer/strings";

const MEASURES = {
  norm: ({ norm }) => norm,
  entry: largestIn,
  relative: ({ norm }, value) => (value.norm > 0 ? norm / value.norm : 0),
};
const SHOWN = 40;

export function start(root, app) {
  const own = { of: "parameter", measure: "norm", all: false };
  const draw = redrawer(root, () => build(app, own, () => draw()), problem);
  drawWhen(app, "ranking", ["doc", "at", "op", "ref", "large"], draw);
}

function build(app, own, draw) {
  const { doc } = app.state.get();
  const choose = (name) => (value) => { own[name] = value; draw(); };
  const options = (name, list) => list.map((value) => [value, t(`ranking.${name}.${value}`)]);
  const rows = rowsOf(app, own);
  const { values } = doc;
  const last = values.filter((value) => wanted(own, value) && value.has_gradient);
  const left = last.length - rows.length;
  const name = t(`ranking.${left > 0 ? "so_far" : "name"}.${own.of}`);
  return [
    h("div", { class: "controls" },
      selectField(t("ranking.of"), "ranking-of", options("of", ["parameter", "activation", "all"]), own.of, choose("of")),
      selectField(t("ranking.by"), "ranking-by", options("by", Object.keys(MEASURES)), own.measure, choose("measure"))),
    left > 0 && rows.length > 0 && h("p", {}, t("ranking.left", { n: left })),
    left > 0 && last.length > 0 && notYet(app, lastOf(doc, last)),
    rows.length > 0 && ranking(app, own, rows, name),
    rows.length > 0 && h("p", { class: "note" }, t(`ranking.note.${own.measure}`)),
  ];
}

// The gradient that backward brings last.
function lastOf(doc, values) {
  return values.map(({ id }) => gradientRef(id)).reduce((last, ref) => (existsFrom(doc, ref) > existsFrom(doc, last) ? ref : last));
}

function wanted({ of }, { kind, shape }) {
  return shape.length > 0 && (of === "all" ? kind !== "loss" : kind === of);
}

function rowsOf(app, own) {
  const now = app.state.get();
  return now.doc.values.filter((value) => wanted(own, value) && app.store.info(gradientRef(value.id)) && exists(now, gradientRef(value.id)))
    .map((value) => ({ value, number: MEASURES[own.measure](app.store.info(gradientRef(value.id)), app.store.info(value.id)) }))
    .sort((a, b) => b.number - a.number);
}

function ranking(app, own, rows, name) {
  const { ref } = app.state.get();
  const limit = Math.max(rows[0].number, 1e-300);
  const items = rows.slice(0, SHOWN).map(({ value, number }) => ({
    label: value.title, number, kind: "gradient", text: formatNumber(number), ref: gradientRef(value.id),
    marked: ref === gradientRef(value.id), title: `dL/d(${value.title}): ${formatNumber(number, 4)}`,
  }));
  const list = bars(items, { limit, name, key: "ranking", choose: ({ ref: chosen }) => goToLargest(app, chosen) });
  return h("section", { class: "ranking" }, h("h3", {}, name, " ", saveButton(name, () => list)), list);
}

// The component with the entry of the largest size chosen.
async function goToLargest(app, ref) {
  const array = await app.store.array(ref).catch(() => null);             // one that is too large opens without a chosen entry
  app.state.update({ view: "component", ref, index: array && unravel(largestAt(array.data), array.shape) });
}

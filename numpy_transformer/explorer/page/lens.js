// What the model would already say after each block: the output layer applied to the residual stream, the three most
// probable labels for each position, shaded by the probability of the first.

import { h } from "explorer/dom";
import { t } from "explorer/strings";
import { colorOf, inkOn } from "explorer/colors";
import { saveButton } from "explorer/svg_export";
import { largest, logitsAt, softmax } from "explorer/predictions_data";
import { percent } from "explorer/probability_table";

const SHOWN = 3;
const MOST_NUMBERS = 40000;                   // logits loaded for the whole table
const MOST_COLUMNS = 16;

export async function lensTable(scene) {
  const { about, app } = scene;
  const stages = (about.lens || []).filter(({ ref }) => app.store.info(ref));
  if (!stages.length) return null;
  if (!sameRange(app, stages[stages.length - 1].ref, about.logits)) {
    stages.push({ title: t("predictions.output"), ref: about.logits });
  }
  const columns = columnsOf(scene, stages.length);
  const rows = [];
  for (const { title, ref } of stages) {
    const cells = await Promise.all(columns.map((at) => cellOf(scene, ref, at)));
    rows.push(h("tr", {}, h("th", { scope: "row" }, title), cells));
  }
  const title = t("predictions.lens");
  const table = h("table", { class: "lens-table" },
    about.perToken && h("thead", {}, h("tr", {}, h("td"), columns.map((at) => headOf(scene, at)))), h("tbody", {}, rows));
  return h("section", { class: "lens" }, h("h3", {}, title, " ", saveButton(title, () => table)),
    h("p", { class: "note" }, t("predictions.lens_note")), h("div", { class: "scroll" }, table));
}

/** The last block's answer is that of the model, unless something stands between them. */
function sameRange(app, ref, other) {
  const [a, b] = [app.store.info(ref), app.store.info(other)];
  return a.min === b.min && a.max === b.max;
}

/** The positions in the table: all of them, or those around the chosen one if all would be too many numbers. */
function columnsOf({ about, own }, stages) {
  const affordable = Math.max(1, Math.floor(MOST_NUMBERS / (about.size * stages)));
  const count = Math.min(about.positions, MOST_COLUMNS, affordable);
  const first = Math.max(0, Math.min(about.positions - count, own.position - Math.floor(count / 2)));
  return Array.from({ length: count }, (_, i) => first + i);
}

function headOf({ about, own, goTo }, at) {
  return h("th", { scope: "col", class: at === own.position ? "chosen" : null },
    h("button", { type: "button", class: "link", "data-key": `lens-${at}`, "data-position": at, onclick: () => goTo(at) },
      about.token(own.batch, at)));
}

async function cellOf({ app, about, own, targets }, ref, at) {
  const p = softmax(await logitsAt(app, about, ref, own.batch, at));
  const best = largest(p, SHOWN);
  const color = colorOf("value", 0.85 * p[best[0]], 1);
  const style = { background: `rgb(${color.join(",")})`, color: `rgb(${inkOn(color).join(",")})` };
  return h("td", { class: at === own.position && about.perToken ? "chosen" : null, style, "data-lens": ref, "data-position": at },
    best.map((i, place) => h("div", { class: place ? "next" : "first" },
      h("span", { class: i === targets[at].target ? "right" : null }, about.label(i)), " ",
      h("span", { class: "number" }, percent(p[i])))));
}

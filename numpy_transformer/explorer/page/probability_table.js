// The table of logits, probabilities and gradients at one position. Logits and gradients are links to their numbers.

import { h } from "explorer/dom";
import { t } from "explorer/strings";
import { formatNumber, fullNumber } from "explorer/format";
import { cssColor } from "explorer/colors";
import { softmax } from "explorer/predictions_data";
import { withSign } from "explorer/attention_data";

export function probabilityTable({ own, about, here, goTo }, { logits, gradients, shown }) {
  const p = softmax(logits, own.temperature);
  const limit = gradients ? Math.max(...gradients.map(Math.abs), 1e-30) : 1;
  const link = (ref, number, text, i) => h("button", { type: "button", class: "link number", "data-ref": ref,
    "data-cell": about.index(own.batch, own.position, i).join(","), "data-value": number, title: fullNumber(number),
    "data-key": `${ref}-${i}`, onclick: () => goTo(own.position, i, ref) }, text);
  const linked = (i) => !about.binary || i === 1;      // the other class of a single logit has no logit of its own
  const rows = shown.map((i) => h("tr", { class: i === here.target ? "marked" : null },
    h("th", { scope: "row" }, about.label(i), i === here.target && h("span", { class: "tag" }, t("predictions.target"))),
    h("td", {}, linked(i) ? link(about.logits, logits[i], formatNumber(logits[i]), i) : formatNumber(logits[i])),
    h("td", { class: "wide" }, bar("value", p[i], 1, false)),
    h("td", { class: "number", "data-probability": p[i] }, percent(p[i])),
    gradients && h("td", { class: "wide" }, bar("gradient", gradients[i], limit, true)),
    gradients && h("td", {}, linked(i) ? link(`grad ${about.logits}`, gradients[i], withSign(gradients[i]), i)
      : withSign(gradients[i]))));
  return h("table", { class: "prediction-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t(`predictions.label.${about.labels}`)),
      h("th", { scope: "col" }, t("predictions.logit")), h("th", { scope: "col", colspan: 2 }, t("predictions.probability")),
      gradients && h("th", { scope: "col", colspan: 2 }, t("predictions.dlogit")))),
    h("tbody", {}, rows));
}

function bar(kind, number, limit, signed) {
  const full = signed ? 50 : 100;
  const width = full * Math.min(1, Math.abs(number) / limit);
  const style = { width: `${width}%`, background: cssColor(kind, Math.sign(number) * limit * 0.75, limit) };
  if (signed) style["margin-left"] = `${number < 0 ? 50 - width : 50}%`;
  const fill = h("span", { class: "meter-fill", style });
  return h("span", { class: signed ? "meter signed" : "meter", "aria-hidden": "true" }, fill);
}

export function percent(p) {
  if (p > 0 && p < 0.0001) return t("predictions.tiny");
  const digits = p >= 0.1 && p < 0.999 ? 1 : 2;
  return `${(100 * p).toFixed(p === 0 || p === 1 ? 0 : digits)} %`;
}

// How far each weight moved in the latest optimizer step, as bars, and the loss before each step as a small curve.

import { button, h, s } from "explorer/dom";
import { t } from "explorer/strings";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";
import { bars } from "explorer/bars";
import { saveButton } from "explorer/svg_export";
import { withSign } from "explorer/attention_data";

const SHOWN = 10;                             // parameters in the list until one asks for all

export function movedTable(app, own) {
  const { doc } = app.state.get();
  const { moved, losses } = doc.hands_on;
  if (!moved || !moved.length) return null;
  const limit = Math.max(...moved.map(({ norm }) => norm), 1e-30);
  const items = moved.slice(0, own.all ? moved.length : SHOWN).map(({ value, title, norm, relative, largest, index }) => ({
    label: lookup(doc).value(value)?.title ?? title, number: norm, ref: value, index, kind: "value",
    text: t("moved.amount", { norm: formatNumber(norm), percent: formatNumber(100 * relative) }),
    title: t("moved.title", { title, norm: formatNumber(norm), largest: withSign(largest), index: index.join(", ") }),
  }));
  const list = bars(items, { limit, name: t("moved.name"), key: "moved",
    choose: ({ ref, index }) => app.state.update({ ref, index }) });
  const more = moved.length > SHOWN && button(own.all ? t("moved.fewer", { n: SHOWN }) : t("moved.all", { n: moved.length }),
    () => { own.all = !own.all; own.draw(); }, { class: "link", "data-key": "moved-all" });
  const curve = losses && losses.length > 1 ? lossCurve([...losses, doc.loss]) : null;
  return h("section", { class: "moved" }, h("h3", {}, t("moved.name"), " ", saveButton(t("moved.name"), () => list)),
    h("p", { class: "note" }, t("moved.note")), curve, list, more);
}

/** The loss before the first step, after it, and so on. */
function lossCurve(losses) {
  const [width, height, left, bottom] = [280, 110, 48, 20];
  const top = Math.max(...losses);
  const low = Math.min(...losses);
  const x = (i) => left + (width - left - 8) * i / (losses.length - 1);
  const y = (loss) => 8 + (height - bottom - 8) * (top === low ? 0.5 : (top - loss) / (top - low));
  const points = losses.map((loss, i) => `${x(i)},${y(loss)}`).join(" ");
  const text = (attributes, content) => s("text", { class: "label", ...attributes }, content);
  const [before, after] = [formatNumber(losses[0]), formatNumber(losses[losses.length - 1])];
  const name = t("moved.curve", { n: losses.length - 1, before, after });
  const frame = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name };
  const dots = losses.map((loss, i) => s("circle", { cx: x(i), cy: y(loss), r: 3, class: "curve-point" },
    s("title", {}, formatNumber(loss, 5))));
  const svg = s("svg", { class: "loss-curve", ...frame }, s("polyline", { points, fill: "none", class: "curve" }), dots,
    text({ x: left - 6, y: y(top) + 4, "text-anchor": "end" }, formatNumber(top)),
    text({ x: left - 6, y: y(low) + 4, "text-anchor": "end" }, top === low ? "" : formatNumber(low)),
    text({ x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, t("moved.steps")));
  const save = saveButton(t("moved.curve_name"), () => svg);
  return h("figure", { class: "curve-figure" }, svg, h("figcaption", {}, name, " ", save));
}

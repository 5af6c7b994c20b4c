// The controls of an array with more than two axes: which axes are drawn, and which entry of the others.

import { button, h } from "explorer/dom";
import { t } from "explorer/strings";
import { axisTitles, heldAxes } from "explorer/array_view";
import { tokensOfAxis } from "explorer/refs";

const BUTTONS_UP_TO = 8;

export function entryChoices({ axes, shape, view, doc, onHold }) {
  const titles = axisTitles(axes);
  return heldAxes(view, shape).map((axis) => entryChoice({ axis, axes, titles, shape, view, doc, onHold }));
}

// A few entries are buttons side by side, many are a number field.
function entryChoice({ axis, axes, titles, shape, view, doc, onHold }) {
  const chosen = view.fixed[axis] || 0;
  const tokens = axes[axis].name === "batch" ? null : tokensOfAxis(doc, axes[axis]);
  if (shape[axis] > BUTTONS_UP_TO) {
    const field = h("input", {
      type: "number",
      min: 0,
      max: shape[axis] - 1,
      value: chosen,
      "aria-label": titles[axis],
      onchange: () => onHold(axis, Math.max(0, Math.min(shape[axis] - 1, Math.round(Number(field.value)) || 0))),
    });
    return h(
      "label",
      { class: "axis-choice" },
      `${titles[axis]} `,
      field,
      ` ${t("axes.of", { last: shape[axis] - 1 })}`,
    );
  }
  const choices = Array.from({ length: shape[axis] }, (_, i) =>
    button((tokens && tokens[i]) || String(i), () => onHold(axis, i), {
      "aria-pressed": String(i === chosen),
      "aria-label": `${titles[axis]} ${i}`,
      class: "segment",
      "data-axis": axis,
      "data-entry": i,
    }),
  );
  return h(
    "span",
    { class: "axis-choice segments", role: "group", "aria-label": titles[axis] },
    h("span", {}, titles[axis]),
    choices,
  );
}

// Every ordered pair of axes that are longer than 1: "rows: token, columns: feature". Null if there is nothing to choose.
export function orderChoice({ axes, shape, view, onView }) {
  const titles = axisTitles(axes);
  const drawable = shape.map((_, axis) => axis).filter((axis) => shape[axis] > 1);
  if (drawable.length < 2) return null;
  const pairs = drawable.flatMap((rows) => drawable.filter((axis) => axis !== rows).map((columns) => [rows, columns]));
  const here = `${view.rows},${view.columns}`;
  const options = pairs.map(([rows, columns]) =>
    h(
      "option",
      { value: `${rows},${columns}`, selected: here === `${rows},${columns}` },
      t("axes.order", { rows: titles[rows], columns: titles[columns] }),
    ),
  );
  if (!pairs.some((pair) => pair.join(",") === here))
    options.unshift(h("option", { value: here, selected: true }, t("axes.order.last")));
  const list = h(
    "select",
    {
      "aria-label": t("axes.order.name"),
      onchange: () => {
        const [rows, columns] = list.value.split(",").map((axis) => (axis === "null" ? null : Number(axis)));
        onView({ ...view, rows, columns });
      },
    },
    options,
  );
  return h("span", { class: "axis-choice" }, list);
}

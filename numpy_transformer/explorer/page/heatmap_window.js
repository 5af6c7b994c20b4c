// Buttons that move the window of a heatmap that is larger than its place: "columns 0 to 39 of 384".

import { h } from "explorer/dom";
import { t } from "explorer/strings";

export function windowControls(map, size) {
  const { window } = map;
  const parts = [];
  if (window.columns < size.columns) parts.push(controlOf(map, "column", window.column, window.columns, size.columns));
  if (window.rows < size.rows) parts.push(controlOf(map, "row", window.row, window.rows, size.rows));
  return parts;
}

function controlOf(map, what, start, count, total) {
  const text = t(`heatmap.window.${what}`, { first: start, last: start + count - 1, total });
  const move = (corner) =>
    map.moveWindowTo({
      row: map.window.row,
      column: map.window.column,
      [what]: Math.max(0, Math.min(total - 1, corner)),
    });
  const button = (label, name, to, disabled) => {
    const element = h("button", { type: "button", class: "quiet", "aria-label": name }, label);
    element.disabled = disabled;
    element.addEventListener("click", () => move(to));
    return element;
  };
  const jump = h("input", {
    type: "range",
    min: "0",
    max: String(total - count),
    step: "1",
    value: String(start),
    "aria-label": text,
  });
  jump.addEventListener("change", () => move(Number(jump.value)));
  return h(
    "div",
    { class: "window-control" },
    button("‹", t("heatmap.window.back"), start - count, start === 0),
    h("span", {}, text),
    button("›", t("heatmap.window.on"), start + count, start + count >= total),
    jump,
  );
}

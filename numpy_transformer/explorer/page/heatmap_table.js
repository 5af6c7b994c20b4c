// The window of a heatmap as a real table, for screen readers and for anyone who wants the digits.

import { h } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { cellIndex } from "explorer/array_view";

const MOST_CELLS = 2000;

export function tableOf(map) {
  const { window, view, shape, ref } = map;
  const rows = Math.min(window.rows, Math.max(1, Math.floor(MOST_CELLS / window.columns)));
  const { rowLabels, columnLabels } = map.labelsOf(window);
  const head = columnLabels.map((label) => h("th", { scope: "col" }, label));
  const body = Array.from({ length: rows }, (_, row) => {
    const cells = Array.from({ length: window.columns }, (_, column) => {
      const index = cellIndex(view, shape, row + window.row, column + window.column);
      return cellOf(map, ref, index, map.read(row, column));
    });
    const label = rowLabels.length ? [h("th", { scope: "row" }, rowLabels[row])] : [];
    return h("tr", {}, ...label, ...cells);
  });
  const corner = rowLabels.length ? [h("td", {})] : [];
  return h("table", { class: "array-table" }, h("thead", {}, h("tr", {}, ...corner, ...head)), h("tbody", {}, ...body));
}

function cellOf(map, ref, index, number) {
  const button = h(
    "button",
    {
      type: "button",
      class: "number-link",
      title: fullNumber(number),
      "data-ref": ref,
      "data-cell": index.join(","),
      "data-value": String(number),
    },
    formatNumber(number),
  );
  button.addEventListener("click", () => map.onChoose && map.onChoose(index));
  return h("td", {}, button);
}

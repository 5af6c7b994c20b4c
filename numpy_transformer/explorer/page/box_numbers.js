// The innermost zoom of the map: the chosen box shows its numbers. Each cell is a number that can be chosen.

import { s } from "explorer/dom";
import { unravel } from "explorer/array_view";
import { colorOf, cssColor, inkOn } from "explorer/colors";
import { exists } from "explorer/existing";
import { shortNumber } from "explorer/format";
import { kindOf } from "explorer/heatmap_look";
import { lookup } from "explorer/lookup";
import { largestIn } from "explorer/noise";
import { limitOf } from "explorer/scales";

const CELL = { width: 40, height: 20 };
const MOST = { rows: 16, columns: 24 };
const GAP = 10;                       // between two tiles, and between the value and its gradient

// The room that a value's numbers take, or null if they are too many to be read. Heads stand one below the other, and the
// gradient beside the value; a single matrix has it below.
export function numbersSize(value, { rows, columns, tiles }) {
  const leading = value.shape.slice(0, -2).reduce((product, length) => product * length, 1);
  if (rows * tiles > MOST.rows || columns > MOST.columns || tiles !== leading) {
    return null;
  }
  const width = columns * CELL.width;
  const height = tiles * rows * CELL.height + (tiles - 1) * GAP;
  const second = !value.has_gradient ? null : tiles > 1 ? { x: width + GAP, y: 0 } : { x: 0, y: height + GAP };
  const all = { width: width + (second?.x ?? 0), height: height + (second?.y ?? 0) };
  return { width, height, rows, columns, tiles, all: all.width, allHeight: all.height, second, numbers: true };
}

// Fills a place with the numbers of an array: a colored cell with its number for each entry.
export async function drawNumbers(place, app, ref) {
  const { doc, common } = app.state.get();
  const info = app.store.info(ref, doc);
  const { shape } = lookup(doc).value(ref.replace(/^grad /, ""));
  const array = await app.store.array(ref, doc).catch(() => null);
  if (!array || !exists(app.state.get(), ref)) {
    return;
  }
  const limit = limitOf(app.store, doc, ref, common);
  const kind = kindOf(info, ref) === "gradient" ? "gradient" : "value";
  const columns = shape.at(-1);
  const rows = shape.at(-2) ?? 1;
  const cells = Array.from(array.data, (number, flat) => {
    const tile = Math.floor(flat / (rows * columns));
    const x = (flat % columns) * CELL.width;
    const y = (Math.floor(flat / columns) % rows) * CELL.height + tile * (rows * CELL.height + GAP);
    return cellOf({ number: Number(number), x, y, kind, limit, ref, index: unravel(flat, shape),
      text: Number(number) === 0 ? "·" : shortNumber(Number(number), largestIn(info) || 1) });
  });
  place.querySelectorAll(".map-cell").forEach((cell) => cell.remove());
  place.append(...cells);
}

function cellOf({ number, x, y, kind, limit, text, ref, index }) {
  const color = colorOf(kind, number, limit);
  const fill = number === -Infinity ? "var(--line)" : cssColor(kind, number, limit);
  return s("g", { class: "map-cell", "data-ref": ref, "data-cell": index.join(","), "data-value": number, transform: `translate(${x} ${y})` },
    s("rect", { width: CELL.width - 1, height: CELL.height - 1, fill }),
    s("text", { x: CELL.width / 2, y: CELL.height / 2, "text-anchor": "middle", "dominant-baseline": "central",
      style: { fill: `rgb(${inkOn(color).join(",")})` } }, text));
}

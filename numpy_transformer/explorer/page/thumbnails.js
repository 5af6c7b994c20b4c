// Tiny heatmaps in the boxes of the map: what a box has computed and, beside it, the gradient that backward brought.
// An array becomes a picture with one pixel for each entry, or for the largest of several entries if it has too many.

import { s } from "explorer/dom";
import { colorOf, theme } from "explorer/colors";
import { drawNumbers } from "explorer/box_numbers";
import { exists } from "explorer/existing";
import { formatNumber } from "explorer/format";
import { kindOf } from "explorer/heatmap_look";
import { lookup } from "explorer/lookup";
import { gradientRef } from "explorer/refs";
import { limitOf } from "explorer/scales";

const ROOM = { width: 60, height: 24 };
const LARGEST = 6;                    // pixels of a cell
const MOST_TILES = 4;                 // heads, or texts, side by side
const MOST_ENTRIES = 60000;           // of an array that is asked from a server
const MASKED = { light: [214, 214, 210], dark: [70, 74, 82] };

// The value whose numbers a box of the map shows: the first output of an op or a group, or an input or a parameter itself.
export function valueOfBox(doc, id) {
  const look = lookup(doc);
  const item = look.node(id);
  return look.value(item ? Object.values(item.outputs)[0] : id);
}

// {rows, columns, tiles, width, height} of an array's picture on the map; null for a single number and for ids.
export function thumbnailSize(value) {
  if (!value || value.shape.length === 0 || value.kind === "constant" || (value.kind === "input" && !value.has_gradient)) {
    return null;
  }
  const columns = value.shape.at(-1);
  const rows = value.shape.at(-2) ?? 1;
  const leading = value.shape.slice(0, -2).reduce((product, length) => product * length, 1);
  const tiles = Math.max(1, Math.min(MOST_TILES, leading));
  const across = columns * tiles + tiles - 1;            // in cells, with an empty column between two tiles
  const cell = Math.min(LARGEST, ROOM.height / rows, ROOM.width / across);
  return { rows, columns, tiles, width: Math.max(4, Math.round(across * cell)), height: Math.max(4, Math.round(rows * cell)) };
}

// The places of the two pictures, empty; paint() fills those whose arrays exist.
export function thumbnailPlaces(value, size, x, y) {
  const refs = [value.id, ...(value.has_gradient ? [gradientRef(value.id)] : [])];
  const { x: across, y: down } = size.second ?? { x: size.width + 4, y: 0 };
  return s("g", { class: size.numbers ? "thumbnails are-numbers" : "thumbnails", transform: `translate(${x} ${y})` }, refs.map((ref, i) => s("g",
    { class: `thumbnail is-${i ? "gradient" : "value"}`, "data-thumbnail": ref, transform: `translate(${i * across} ${i * down})` },
    s("rect", { class: "ground", x: -0.5, y: -0.5, width: size.width + 1, height: size.height + 1 }))));
}

// Shows the pictures of what exists at this step, and hides the others. What has been drawn before is not drawn again.
export function paint(svg, app) {
  const now = app.state.get();
  for (const place of svg.querySelectorAll("[data-thumbnail]")) {
    const ref = place.dataset.thumbnail;
    const there = now.doc.arrays[ref] !== undefined && exists(now, ref);
    place.classList.toggle("is-there", there);
    const look = `${now.doc.id} ${theme()} ${now.common}`;
    if (there && place.dataset.look !== look) {
      place.dataset.look = look;
      (place.closest(".are-numbers") ? drawNumbers(place, app, ref) : draw(place, app, now, ref));
    }
  }
}

async function draw(place, app, { doc, common }, ref) {
  const info = app.store.info(ref, doc);
  const size = thumbnailSize(lookup(doc).value(ref.replace(/^grad /, "")));
  const held = typeof info.data === "string";
  if (!held && (!app.store.live || info.shape.reduce((product, length) => product * length, 1) > MOST_ENTRIES)) {
    return;
  }
  const array = await app.store.array(ref, doc).catch(() => null);       // a server that has ended leaves the place empty
  if (!array) {
    return;
  }
  const limit = limitOf(app.store, doc, ref, common);
  place.querySelector("image")?.remove();
  const pixels = picture(array.data, size, kindOf(info, ref), limit);
  place.append(s("image", { href: pixels, width: size.width, height: size.height, preserveAspectRatio: "none",
    "image-rendering": "pixelated" }, s("title", {}, `${formatNumber(info.min ?? NaN)} … ${formatNumber(info.max ?? NaN)}`)));
}

function picture(data, { rows, columns, tiles, width, height }, kind, limit) {
  const canvas = document.createElement("canvas");
  const across = Math.min(columns, Math.max(1, Math.floor((width + 1) / tiles) - 1));
  const down = Math.min(rows, height);
  canvas.width = tiles * (across + 1) - 1;
  canvas.height = down;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, down);
  for (let n = 0; n < tiles; n += 1) {
    for (let i = 0; i < down; i += 1) {
      for (let j = 0; j < across; j += 1) {
        const number = strongest(data, n * rows * columns, { rows, columns, i, j, across, down });
        image.data.set([...pixel(number, kind, limit), 255], 4 * (i * canvas.width + n * (across + 1) + j));
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// The entry of the largest size among those that share a pixel.
function strongest(data, start, { rows, columns, i, j, across, down }) {
  let best = NaN;
  for (let row = Math.floor((i * rows) / down); row < ((i + 1) * rows) / down; row += 1) {
    for (let column = Math.floor((j * columns) / across); column < ((j + 1) * columns) / across; column += 1) {
      const number = Number(data[start + row * columns + column]);
      if (Number.isNaN(best) || Math.abs(number) > Math.abs(best)) {
        best = number;
      }
    }
  }
  return best;
}

function pixel(number, kind, limit) {
  if (number === -Infinity || (kind === "mask" && number === 0)) {
    return MASKED[theme()];
  }
  return colorOf(kind === "gradient" ? kind : "value", number, limit);
}

// Attention as lines between tokens: queries on the left, keys on the right, a line as thick as its number is large.
// Hover, focus or choose a token to see only its lines.

import { s } from "explorer/dom";
import { cssColor } from "explorer/colors";
import { LABEL_WIDTH } from "explorer/small_matrix";
import { shorten, widest } from "explorer/text_width";

export const DASHES = ["none", "9 4", "2 3", "9 3 2 3"];      // of the lines of the first, second ... head that is drawn
const MOST_LINES = 1500;                      // more lines than this can neither be seen nor drawn quickly

/**
 * options: queries and keys (labels), heads (numbers of the heads drawn), value(head, i, j), masked(head, i, j), kind,
 * limit, large, chosen {side: "query" | "key", at: i} or null, sentence(side, i), choose(side, i), hover(side, i or null).
 */
export function attentionLines(options) {
  const { queries, keys, large } = options;
  const step = large ? 44 : 28;
  const font = large ? 24 : 14;
  const room = Math.min(large ? 230 : 130, 24 + font * 0.62 * Math.max(widest(options.titles), Math.min(LABEL_WIDTH, widest([...queries, ...keys]))));
  const width = 2 * room + (large ? 330 : 200);
  const height = step * Math.max(queries.length, keys.length) + step;
  const svg = s("svg", { class: "attention-lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": options.name });
  const scene = { step, font, room, width, y: (i) => step * (i + 1.25) };
  const lines = s("g", { class: "lines" });
  drawLines(lines, options, scene, options.chosen);
  svg.append(heading(options.titles[0], room - 8, "end", step), heading(options.titles[1], width - room + 8, "start", step));
  svg.append(lines, ...tokens(svg, lines, options, scene));
  return svg;
}

function heading(text, x, anchor, step) {
  const place = { x, y: step * 0.5, "text-anchor": anchor, "dominant-baseline": "central" };
  return s("text", { class: "lines-heading", ...place }, text);
}

function drawLines(group, { queries, keys, heads, value, masked, kind, limit, large }, scene, chosen) {
  const found = [];
  heads.forEach((head, n) => queries.forEach((_, i) => keys.forEach((__, j) => {
    const number = value(head, i, j);
    const seen = !masked(head, i, j) && Number.isFinite(number) && Math.abs(number) >= 0.01 * limit;
    const wanted = !chosen || (chosen.side === "query" ? chosen.at === i : chosen.at === j);
    if (seen && wanted) found.push({ i, j, number, n, offset: n - (heads.length - 1) / 2 });
  })));
  found.sort((a, b) => Math.abs(b.number) - Math.abs(a.number)).length = Math.min(found.length, MOST_LINES);
  const thickest = (large ? 14 : 9) / Math.sqrt(heads.length);
  const apart = Math.min(4, (scene.step * 0.6) / heads.length);
  const [left, right] = [scene.room, scene.width - scene.room];
  const bend = (right - left) / 2.4;
  const several = heads.length > 1 && heads.length <= DASHES.length;
  group.replaceChildren(...found.reverse().map(({ i, j, number, n, offset }) => {
    const share = Math.min(1, Math.abs(number) / limit);
    const [from, to] = [scene.y(i) + offset * apart, scene.y(j) + offset * apart];
    return s("path", { d: `M${left},${from} C${left + bend},${from} ${right - bend},${to} ${right},${to}`, fill: "none",
      stroke: cssColor(kind, Math.sign(number) * limit * (0.45 + 0.55 * share), limit),
      "stroke-width": 0.6 + thickest * share, "stroke-opacity": 0.3 + 0.6 * share, "stroke-linecap": n > 0 && several ? "butt" : "round",
      "stroke-dasharray": several ? DASHES[n] : "none",
      "data-pair": `${i},${j}` });
  }));
}

/** The tokens of both columns. One tab stop: arrow keys move between tokens and columns. */
function tokens(svg, lines, options, scene) {
  const { queries, keys, sentence, choose, hover, chosen } = options;
  const nodes = { query: [], key: [] };
  const look = (side, at) => {
    drawLines(lines, options, scene, side ? { side, at } : chosen);
    hover(side, at);
  };
  const make = (side, label, i) => {
    const at = chosen && chosen.side === side && chosen.at === i;
    const x = side === "query" ? scene.room - 8 : scene.width - scene.room + 8;
    const first = !chosen && side === "query" && i === 0;
    const node = s("g", { class: at ? "token chosen" : "token", tabindex: at || first ? 0 : -1, role: "button",
      "aria-pressed": String(Boolean(at)), "aria-label": sentence(side, i), "data-side": side, "data-token": i },
    s("rect", { x: side === "query" ? 0 : x - 6, y: scene.y(i) - scene.step / 2, width: scene.room - 2, height: scene.step,
      rx: 4, class: "token-ground" }),
    s("text", { x, y: scene.y(i), "font-size": scene.font, "text-anchor": side === "query" ? "end" : "start",
      "dominant-baseline": "central" }, shorten(label, LABEL_WIDTH)));
    node.addEventListener("pointerenter", () => look(side, i));
    node.addEventListener("pointerleave", () => look(null));
    node.addEventListener("focus", () => look(side, i));
    node.addEventListener("click", () => choose(side, i));
    node.addEventListener("keydown", (event) => moveFocus(event, nodes, side, i, choose));
    return node;
  };
  nodes.query = queries.map((label, i) => make("query", label, i));
  nodes.key = keys.map((label, i) => make("key", label, i));
  return [...nodes.query, ...nodes.key];
}

function moveFocus(event, nodes, side, i, choose) {
  const other = side === "query" ? "key" : "query";
  const targets = {
    ArrowUp: nodes[side][i - 1], ArrowDown: nodes[side][i + 1],
    ArrowLeft: nodes.query[Math.min(i, nodes.query.length - 1)], ArrowRight: nodes.key[Math.min(i, nodes.key.length - 1)],
    Home: nodes[side][0], End: nodes[side][nodes[side].length - 1],
  };
  if (event.key === "Enter" || event.key === " ") choose(side, i);
  else if (!(event.key in targets)) return;
  const target = targets[event.key];
  if (target) {
    [...nodes[side], ...nodes[other]].forEach((node) => node.setAttribute("tabindex", -1));
    target.setAttribute("tabindex", 0);
    target.focus();
  }
  event.preventDefault();
  event.stopPropagation();
}

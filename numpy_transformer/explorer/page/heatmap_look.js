// What a heatmap takes from the page: its color scale, the theme's colors and type size, and what the arrow keys mean.

import { isGradient } from "explorer/refs";

export function kindOf(info, ref) {
  if (info.dtype === "bool") return "mask";
  return isGradient(ref) ? "gradient" : "value";
}

// The page's colors as the canvas needs them; they change with the theme.
export function styleOf(element) {
  const style = getComputedStyle(element);
  const color = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const size = parseFloat(style.fontSize);
  const fontSize = size > 20 ? size * 0.85 : Math.max(11, size * 0.78); // on a projector, small type is lost
  return {
    scale: size / 16,
    text: style.color,
    panel: color("--panel", "#ffffff"),
    muted: color("--ink-2", "#666666"),
    alarm: color("--wrong", "#c00000"),
    light: color("--focus", "#b0005a"),
    fontSize,
    font: `${fontSize}px ${style.fontFamily}`,
  };
}

export function movedCursor(key, { row, column }, size, window) {
  const moves = {
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    Home: [row, 0],
    End: [row, size.columns - 1],
    PageUp: [row - window.rows, column],
    PageDown: [row + window.rows, column],
  };
  if (!moves[key]) return null;
  const within = (i, count) => Math.max(0, Math.min(count - 1, i));
  return { row: within(moves[key][0], size.rows), column: within(moves[key][1], size.columns) };
}

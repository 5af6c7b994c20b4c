// The curves of loss, gradient norm and learning rate on one canvas. Everything is drawn twice when the size or the theme
// changes: pale, for the whole film, and strong, of which a frame shows the part up to its step.

import { numberAxis, stepAxis, stepTicks } from "explorer/film_axis";
import { cssVariable, sized } from "explorer/film_paint";
import { formatCount, formatNumber, shortestNumber } from "explorer/format";

export const GUTTER = { left: 58, right: 18 };      // pixels beside the curves; the slider keeps them free, too
const AXIS = 20;
const FONT = 14;
const SMOOTHING = 0.08;                             // the running mean takes so many points before and after a point, in shares of its number

export function curves(film) {
  const canvas = document.createElement("canvas");
  const at = stepAxis(film.frames);
  let pale = null;
  let strong = null;
  let size = null;

  function redraw(width, height) {
    size = { width, height, plot: width - GUTTER.left - GUTTER.right };
    const loss = { top: 8, height: Math.round((height - AXIS) * 0.62) - 8 };
    const norm = { top: loss.top + loss.height + 12, height: height - AXIS - loss.top - loss.height - 14 };
    pale = layer(false, loss, norm);
    strong = layer(true, loss, norm);
    sized(canvas, width, height);
  }

  function layer(isStrong, loss, norm) {
    const sheet = document.createElement("canvas");
    const context = sized(sheet, size.width, size.height);
    const x = (step) => GUTTER.left + at(step) * size.plot;
    const { step, ...numbers } = film.curves;
    const smooth = runningMean(numbers.loss);
    const lossAxis = numberAxis([...numbers.loss, ...film.doc.validation.map((point) => point.loss)]);
    const normAxis = numberAxis([...numbers.norm], true);
    const y = (box, axis) => (number) => box.top + box.height * (1 - axis.y(number));
    if (!isStrong) {
      drawAxes(context, film, at, x, size);
      drawTicks(context, loss, lossAxis, size.plot);
      drawTicks(context, norm, normAxis, size.plot);
    }
    const fade = isStrong ? 1 : 0.22;
    const line = (box, axis, values, color, width, alpha, dash = []) =>
      polyline(context, step, values, x, y(box, axis), { color: cssVariable(color), width, alpha: alpha * fade, dash });
    const mostLr = numbers.lr.reduce((most, lr) => Math.max(most, lr), 1e-12);
    line(norm, { y: (number) => number / (1.05 * mostLr) }, numbers.lr, "--ink-2", 1.25, 0.9, [4, 3]);
    line(norm, normAxis, numbers.norm, "--backward", 1.25, 0.9);
    line(loss, lossAxis, numbers.loss, "--forward", 1, isStrong ? 0.4 : 0.7);
    line(loss, lossAxis, smooth, "--forward", 2.25, 1);
    for (const point of film.doc.validation) {
      dot(context, x(point.step), y(loss, lossAxis)(point.loss), 4, cssVariable("--forward-2"), fade);
    }
    return sheet;
  }

  function draw(frame) {
    const context = canvas.getContext("2d");
    const ratio = canvas.width / size.width;
    const marker = GUTTER.left + at(film.frames[frame].step) * size.plot;
    context.clearRect(0, 0, size.width, size.height);
    context.drawImage(pale, 0, 0, size.width, size.height);
    if (marker > 0) context.drawImage(strong, 0, 0, (marker + 0.5) * ratio, canvas.height, 0, 0, marker + 0.5, size.height);
    context.fillStyle = cssVariable("--ink");
    context.fillRect(marker - 0.75, 2, 1.5, size.height - AXIS);
  }

  return { canvas, redraw, draw, frameAt: (x) => Math.round(((x - GUTTER.left) / size.plot) * (film.frames.length - 1)) };
}

function drawAxes(context, film, at, x, { width, height, plot }) {
  context.font = `${FONT}px ${cssVariable("--font")}`;
  context.fillStyle = cssVariable("--ink-2");
  context.textBaseline = "alphabetic";
  const ticks = stepTicks(film.frames, at, 64 / plot);
  ticks.forEach((step, i) => {
    const isLast = i === ticks.length - 1 && i > 0;
    context.textAlign = isLast ? "right" : "center";
    context.fillRect(x(step) - 0.5, height - AXIS, 1, 4);
    context.fillText(formatCount(step), isLast ? Math.min(width - 2, x(step) + 14) : x(step), height - 2);
  });
  context.fillStyle = cssVariable("--line");
  context.fillRect(GUTTER.left, height - AXIS, plot, 1);
}

function drawTicks(context, { top, height }, { y, ticks, isLog }, plot) {
  context.font = `${FONT}px ${cssVariable("--font")}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  let below = Infinity;
  for (const tick of ticks) {
    const at = top + height * (1 - y(tick));
    if (below - at < FONT + 1 || at < top - 8) continue;      // a label needs room
    below = at;
    context.fillStyle = cssVariable("--line");
    context.fillRect(GUTTER.left, Math.round(at), plot, 1);
    context.fillStyle = cssVariable("--ink-2");
    context.fillText(isLog ? formatNumber(tick, 1) : shortestNumber(tick), GUTTER.left - 8, Math.max(at, 8));
  }
}

function polyline(context, steps, values, x, y, { color, width, alpha, dash }) {
  context.save();
  context.globalAlpha = alpha;
  context.strokeStyle = color;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.beginPath();
  steps.forEach((step, i) => context.lineTo(x(step), y(values[i])));
  context.stroke();
  context.restore();
}

function dot(context, x, y, radius, color, alpha) {
  context.save();
  context.globalAlpha = alpha;
  context.fillStyle = color;
  context.strokeStyle = cssVariable("--paper");
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
  context.restore();
}

// The mean of the points around each point: of few at the beginning, where the loss changes fastest.
function runningMean(values) {
  const sums = [0];
  for (const value of values) sums.push(sums[sums.length - 1] + value);
  return values.map((_, i) => {
    const around = Math.min(Math.ceil(SMOOTHING * i), values.length - 1 - i);
    return (sums[i + around + 1] - sums[i - around]) / (2 * around + 1);
  });
}

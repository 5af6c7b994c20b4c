// A small curve of one number over the frames, on a logarithmic scale: pale for the whole film, strong up to the present frame,
// with the present number beside it.

import { cssVariable, sized } from "explorer/film_paint";
import { formatNumber } from "explorer/format";

const MARGIN = 4;
const WIDEST = 1e6; // ratio of the largest to the smallest number that the scale can show

// number -> share of the height, between the smallest and the largest of all numbers.
export function sharedAxis(numbers) {
  const positive = numbers.filter((number) => number > 0);
  const largest = positive.reduce((most, number) => Math.max(most, number), 1e-12);
  const smallest = positive.reduce((least, number) => Math.min(least, number), largest);
  const high = Math.log(largest);
  const low = Math.max(Math.log(smallest), high - Math.log(WIDEST));
  return (number) => (number > 0 ? Math.max(0, (Math.log(number) - low) / Math.max(high - low, 1e-9)) : 0);
}

// redraw({width, height}) follows a new theme or size.
export function sparkline(numbers, axis, color) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const number = document.createElement("span");
  number.className = "number";
  const x = (frame) => MARGIN + ((width - 2 * MARGIN) * frame) / Math.max(1, numbers.length - 1);
  const y = (value) => height - MARGIN - (height - 2 * MARGIN) * axis(value);
  let sheets = [];
  let width = 0;
  let height = 0;

  function redraw(size) {
    ({ width, height } = size);
    sheets = [0.25, 1].map((alpha) => {
      const sheet = document.createElement("canvas");
      const context = sized(sheet, width, height);
      context.globalAlpha = alpha;
      context.strokeStyle = cssVariable(color);
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.beginPath();
      numbers.forEach((value, frame) => Number.isFinite(value) && context.lineTo(x(frame), y(value)));
      context.stroke();
      return sheet;
    });
    sized(canvas, width, height).fillStyle = cssVariable(color);
  }

  function draw(frame) {
    const value = numbers[frame];
    const isThere = Number.isFinite(value);
    const context = canvas.getContext("2d");
    const ratio = canvas.width / width;
    context.clearRect(0, 0, width, height);
    context.drawImage(sheets[0], 0, 0, width, height);
    context.drawImage(sheets[1], 0, 0, x(frame) * ratio, canvas.height, 0, 0, x(frame), height);
    number.textContent = isThere ? formatNumber(value, 2) : "–";
    number.dataset.value = isThere ? value : "";
    if (!isThere) return;
    context.beginPath();
    context.arc(x(frame), y(value), 3, 0, 2 * Math.PI);
    context.fill();
  }
  return { canvas, number, draw, redraw };
}

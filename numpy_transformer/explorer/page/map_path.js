// The path of the chosen number on the map: a bright line under the lines that it follows, and the number itself, which travels
// along it, forward with its values to the loss and back with its gradients.

import { s } from "explorer/dom";
import { formatNumber } from "explorer/format";
import { lookup } from "explorer/lookup";

const SPEED = 420;                    // pixels in a second, forward and backward
const LONGEST = 2400;                 // milliseconds of one direction
const REST = 500;                     // at the loss

// Draws the path of these places, and returns play(), which lets the number travel once. Nothing is drawn for an empty path.
export function drawPath(view, doc, places, visible) {
  view.svg.querySelectorAll(".path, .traveler").forEach((element) => element.remove());
  cancelAnimationFrame(view.travel);
  const stops = stopsOf(view, doc, places, visible);
  if (stops.length < 2) {
    return () => {};
  }
  const along = stops.flatMap(({ lines }) => lines.map(({ points }) => `M${points.map((point) => point.join(" ")).join("L")}`));
  view.svg.querySelector(".line")?.before(s("path", { class: "path", d: along.join("") || "M0 0" }));
  return () => travel(view, stops);
}

// For each place that stands in another box than the one before: its numbers, and the points of the lines that lead on from there.
function stopsOf(view, doc, places, visible) {
  const look = lookup(doc);
  const stops = [];
  for (const place of places.filter(({ value }) => look.value(value))) {          // the document may be another one by now
    const { value, op } = place;
    const from = boxOf(view, look.value(value).producer ?? value, visible);
    const to = op ? boxOf(view, op, visible) : null;
    if (from && from === to) {
      continue;                       // inside a folded group
    }
    const lines = op ? view.scene.lines.filter((line) => line.value === value && line.consumers.has(op)) : [];
    const start = from ? [from.x + from.w / 2, from.y + (op ? from.h : from.h / 2)] : lines[0]?.points[0];       // it ends inside the loss
    if (start) {
      stops.push({ ...place, lines, points: chain(start, lines) });
    }
  }
  return stops;
}

function boxOf(view, id, visible) {
  return view.nodes.get(visible(id))?.box ?? null;
}

// Lines of one value as a row of points: each line begins where the one before ends.
function chain(start, lines) {
  const rest = [...lines];
  const points = [];
  let end = start;
  while (rest.length > 0) {
    const gaps = rest.map(({ points: [first] }) => distance(end, first));
    const [next] = rest.splice(gaps.indexOf(Math.min(...gaps)), 1);
    points.push(...next.points);
    end = points.at(-1);
  }
  return points.length > 0 ? points : [start];
}

function distance([x1, y1], [x2, y2]) {
  return Math.hypot(x2 - x1, y2 - y1);
}

function travel(view, stops) {
  cancelAnimationFrame(view.travel);
  view.svg.querySelector(".traveler")?.remove();
  const track = measured(stops);
  const time = Math.min(LONGEST, (1000 * track.length) / SPEED);
  const text = s("text", { "dominant-baseline": "central", "text-anchor": "middle" });
  const ground = s("rect", { height: 20, y: -10, rx: 10 });
  const traveler = s("g", { class: "traveler forward" }, ground, text);
  view.svg.append(traveler);
  const begun = performance.now();
  const move = (now) => {
    const passed = now - begun;
    const back = passed > time + REST;
    const share = back ? 1 - (passed - time - REST) / time : Math.min(1, passed / time);
    if (share < 0 || !traveler.isConnected) {
      traveler.remove();
      return;
    }
    const { x, y, stop } = track.at(smooth(share));
    const number = formatNumber(back ? stop.gradient : stop.number);
    traveler.setAttribute("transform", `translate(${x} ${y})`);
    traveler.setAttribute("class", back ? "traveler backward" : "traveler forward");
    if (text.textContent !== number) {
      text.textContent = number;
      const width = 12 + 7.5 * number.length;
      ground.setAttribute("width", width);
      ground.setAttribute("x", -width / 2);
    }
    view.travel = requestAnimationFrame(move);
  };
  view.travel = requestAnimationFrame(move);
}

function smooth(share) {
  return share * share * (3 - 2 * share);
}

// The whole way with its length; at(share) is the point there, and the stop whose number travels.
function measured(stops) {
  const parts = [];
  let length = 0;
  let last = null;
  for (const stop of stops) {
    for (const point of stop.points) {
      if (last) {
        parts.push({ from: last, to: point, start: length, stop });
        length += distance(last, point);
      }
      last = point;
    }
  }
  const at = (share) => {
    const place = share * length;
    const part = parts.findLast(({ start }) => start <= place) ?? parts[0];
    const whole = distance(part.from, part.to) || 1;
    const along = Math.min(1, (place - part.start) / whole);
    return { x: part.from[0] + along * (part.to[0] - part.from[0]), y: part.from[1] + along * (part.to[1] - part.from[1]), stop: part.stop };
  };
  return { length, at };
}

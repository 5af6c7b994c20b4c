// The lines of the map: their paths with round corners, and what they show at a step.

const RADIUS = 6;

export function linePath({ points }) {
  const path = [`M${round(points[0])}`];
  for (let i = 1; i < points.length - 1; i += 1) {
    const before = points[i - 1];
    const corner = points[i];
    const after = points[i + 1];
    const radius = Math.min(RADIUS, distance(before, corner) / 2, distance(corner, after) / 2);
    path.push(`L${round(toward(corner, before, radius))}Q${round(corner)} ${round(toward(corner, after, radius))}`);
  }
  path.push(`L${round(points[points.length - 1])}`);
  return path.join("");
}

export function lineClasses(line, progress, look) {
  const consumers = [...line.consumers];
  const flow = progress.flow(line.value, consumers);
  const arrived = progress.phase !== "forward" && progress.gradientFrom(consumers) > 0 && look.value(line.value)?.has_gradient;
  const used = consumers.some((op) => progress.done.forward.has(op));
  return {
    shared: look.value(line.value)?.kind === "parameter",
    arrow: line.last, origin: line.first,
    "done-forward": progress.valueDone(line.value) && (used || flow === "forward"),
    "done-backward": arrived, "flow-forward": flow === "forward", "flow-backward": flow === "backward",
  };
}

function distance([x1, y1], [x2, y2]) {
  return Math.hypot(x2 - x1, y2 - y1);
}

function toward(from, to, length) {
  const whole = distance(from, to) || 1;
  return [from[0] + ((to[0] - from[0]) * length) / whole, from[1] + ((to[1] - from[1]) * length) / whole];
}

function round(point) {
  return point.map((x) => Math.round(x * 10) / 10).join(" ");
}

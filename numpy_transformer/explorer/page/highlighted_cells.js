// The cells that the chosen number came from. number.js tells, the heatmaps on the page light them up.

const listeners = new Set();
let lit = new Map(); // ref -> list of indexes

export function light(cells) {
  lit = new Map();
  for (const { ref, index } of cells) {
    if (!lit.has(ref)) lit.set(ref, []);
    lit.get(ref).push(index);
  }
  listeners.forEach((listener) => listener());
}

export function litIn(ref) {
  return lit.get(ref) || [];
}

// Calls the listener now and at every change; returns a function that ends this.
export function onLight(listener) {
  listeners.add(listener);
  listener();
  return () => listeners.delete(listener);
}

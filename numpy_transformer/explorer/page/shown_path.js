// The path of the chosen number. number.js finds it, the map draws it.

const listeners = new Set();
let path = { places: [], play: false };

export function showPath(places, play) {
  path = { places, play };
  listeners.forEach((listener) => listener(path));
}

export function shownPath() {
  return path;
}

export function onPath(listener) {
  listeners.add(listener);
}

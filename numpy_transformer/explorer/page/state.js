// One state object for the whole page: what is shown, and its address.
//
//   state.get()                      the present state (never change it directly)
//   state.update(changes, options)   changes it and tells every subscriber
//   state.subscribe(listener)        listener(now, before); returns a function that ends the subscription
//   state.back(), state.go(n)        back to an earlier place; state.places() lists them for the breadcrumb
//
// A choice of an op, an array, a cell or a view is a new place: the Back button of the browser returns from it.
// update(..., {replace: true}) changes the present place instead, for example while a cell is only focused, and with {step: true}
// a row of steps on the time line is one place.

import { readAddress, writeAddress } from "explorer/address";
import { existsFrom } from "explorer/existing";
import { lookup } from "explorer/lookup";
import { parseRef } from "explorer/refs";

const PLACE = ["op", "ref", "index", "view"];

const START = {
  doc: null, base: null, edits: [], at: 0, op: null, ref: null, index: null, view: "component", slices: {},
  large: false, common: false, two: false, story: null, compare: null, theme: "auto", area: "map", problem: null, busy: false,
  stepped: false,          // whether the latest change came from the time line
};

export function createState() {
  const address = window.location.hash.length > 1 ? window.location.hash : (document.body.dataset.start ?? "");
  const placed = readAddress(address);
  let current = { ...START, ...placed };
  const listeners = new Set();
  const waiting = [];
  let places = [placeOf(current)];
  let position = 0;
  let timer = null;
  let stepping = false;
  let historyWorks = true;

  function get() {
    return current;
  }

  function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function update(changes, { replace = false, step = false } = {}) {
    const before = current;
    current = { ...current, ...follow(changes, current), stepped: step };
    const moved = PLACE.some((key) => !same(before[key], current[key]));
    const goesOn = replace || (step && stepping);
    stepping = step || (replace && stepping);
    if (moved && !goesOn && before.doc) {
      places = [...places.slice(0, position + 1), placeOf(current)];
      position += 1;
      write(true);
    } else {
      places[position] = placeOf(current);
      writeSoon();
    }
    tell(current, before);
  }

  // A listener that updates the state itself is served after all listeners have heard of the first change.
  function tell(now, before) {
    waiting.push([now, before]);
    if (waiting.length > 1) {
      return;
    }
    while (waiting.length > 0) {
      for (const listener of [...listeners]) {
        try {
          listener(...waiting[0]);
        } catch (error) {
          console.error(error);
        }
      }
      waiting.shift();
    }
  }

  function write(push) {
    window.clearTimeout(timer);
    if (!historyWorks) {
      return;
    }
    try {
      const address = writeAddress(current);
      if (push) {
        window.history.pushState({ place: position }, "", address);
      } else {
        window.history.replaceState({ place: position }, "", address);
      }
    } catch (error) {
      historyWorks = false;      // a page inside a notebook's frame has no address of its own
    }
  }

  function writeSoon() {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => write(false), 250);       // browsers limit how often the address may change
  }

  function restore(n) {
    const before = current;
    position = n;
    stepping = false;
    current = { ...current, ...places[n] };
    writeSoon();
    tell(current, before);
  }

  function go(n) {
    if (n < 0 || n >= places.length || n === position) {
      return;
    }
    if (historyWorks) {
      window.history.go(n - position);
    } else {
      restore(n);
    }
  }

  window.addEventListener("popstate", (event) => {
    const place = event.state?.place;
    if (Number.isInteger(place) && place < places.length) {
      restore(place);
    } else {
      const before = current;
      current = { ...current, ...follow(readAddress(window.location.hash), { ...current, op: null }) };
      tell(current, before);
    }
  });

  // The first document arrives: the address chooses in it; without one, the first step does.
  function arrive(doc, edits) {
    const choice = stillThere(doc, current);
    if (placed.at === undefined) {
      delete choice.at;
      if (placed.view && placed.view !== "component" && !placed.ref) {
        choice.at = doc.steps.length - 1;            // a view shows what has been computed, so an address of one means the end
      }
    }
    update({ doc, base: doc, edits, ...choice }, { replace: true });
  }

  return { get, subscribe, update, arrive, go, back: () => go(position - 1), places: () => ({ places, position }) };
}

// What a change implies: a step of the time line chooses its op, and a chosen array is one that exists.
function follow(changes, current) {
  const result = { ...changes };
  const doc = changes.doc ?? current.doc;
  if (!doc) {
    return result;
  }
  const look = lookup(doc);
  if (changes.ref && changes.op === undefined) {
    result.op = opOfRef(look, changes.ref, current.op);
  }
  if (result.op && !look.node(result.op)) {
    result.op = null;
  }
  // A choice moves the time line only on, to where what is chosen has been computed; only its own keys lead back.
  if (changes.at === undefined && result.op && (changes.ref || result.op !== current.op || !current.doc)) {
    const needed = result.ref ? existsFrom(doc, result.ref) : look.stepOf(result.op, "forward") ?? 0;
    if (needed > current.at) {
      result.at = needed;
    }
  } else if (changes.at !== undefined) {
    result.at = Math.max(0, Math.min(doc.steps.length - 1, Math.round(changes.at) || 0));
    if (changes.ref) {
      result.at = Math.max(result.at, existsFrom(doc, changes.ref));
    }
    const op = doc.steps[result.at]?.op;
    if (changes.op === undefined && !changes.ref && op) {
      result.op = op;
    }
  }
  const ref = changes.ref === undefined ? current.ref : changes.ref;
  const gone = changes.ref === undefined && ref && existsFrom(doc, ref) > (result.at ?? current.at);      // back before it was computed
  if (gone || (result.op !== undefined && result.op !== current.op && changes.ref === undefined)) {
    result.ref = null;
    result.index = null;
  } else if (changes.ref !== undefined && changes.ref !== current.ref && changes.index === undefined) {
    result.index = null;
  }
  return result;
}

// The op whose panel shows an array: the present one if it uses the array, otherwise the one that makes it.
function opOfRef(look, ref, op) {
  const { value, op: via } = parseRef(ref);
  if (!value) {
    return op;
  }
  if (via) {
    return via;
  }
  if (op && look.touches(op).includes(value)) {
    return op;
  }
  const found = look.value(value);
  return found?.producer ?? found?.consumers?.[0]?.op ?? op;
}

// What is left of a choice in a document: an address may be old, and an edit may remove what was chosen.
export function stillThere(doc, { op, ref, index, at }) {
  const look = lookup(doc);
  const changes = { at: Math.max(0, Math.min(at, doc.steps.length - 1)) };
  const value = ref ? look.value(parseRef(ref).value) : null;
  const fits = value && index && index.length === value.shape.length && index.every((i, axis) => i < value.shape[axis]);
  changes.ref = value ? ref : null;
  changes.index = fits ? index : null;
  changes.op = op && look.node(op) ? op : null;
  if (!changes.op) {
    changes.op = changes.ref ? opOfRef(look, ref, null) : doc.steps[changes.at]?.op ?? null;
  }
  return changes;
}

function placeOf(state) {
  const { op, ref, index, view, at, slices } = state;
  return { op, ref, index, view, at, slices };
}

function same(a, b) {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

// Where the numbers come from. A saved page holds all of them; a live page asks the server for the larger ones.
// Both look the same from outside, and every answer is a promise:
//
//   store.live                           whether there is a server
//   store.info(ref)                      {shape, dtype, min, max, zeros} at once, or null if the document has no such array
//   store.array(ref)                     {shape, dtype, data} with a typed array
//   store.array(ref, index)              a part: for each axis a number (drops the axis) or [start, stop]; store.slice is the same.
//                                        Another document, such as state.base, may follow as the last argument.
//   store.spell(ref, index)              the evaluated formula of one entry, or null if its component brings no formula
//                                        A server answers in float64; with {here: true} as a last argument, the page
//                                        does it itself if it has the arrays, which is quicker. store.holds(ref) says so.
//   store.nudge(value, index, number)    {loss} with one entry of a value set to `number`
//   store.documentOf(edits)              a document with other edits, which changes nothing on the page
//   store.can(edits)                     whether the page has, or can ask for, that document
//   store.comparisons()                  other steps that are worth a look: [{name, title, edits}]
//   store.edit(edits)                    a new document; sets state.doc, state.base and state.edits
//
// A rejected promise carries an Error whose message is one sentence for the reader; the status bar shows it too.

import { refsFor, spellIn } from "explorer/evaluate";
import { stillThere } from "explorer/state";
import { reviveNumbers } from "explorer/spelling";
import { t } from "explorer/strings";

const TYPES = { float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array,
                uint8: Uint8Array, bool: Uint8Array };

export function createStore(state) {
  const embedded = document.getElementById("document");
  const live = embedded === null;
  const decoded = new WeakMap();         // entry of doc.arrays -> {shape, dtype, data}
  let latest = 0;
  let given = null;                      // the document without edits
  let variants = [];                     // of a saved page: other steps, each with the edits that lead to it

  async function start() {
    const doc = live ? await ask("api/document", { edits: [] }) : await unpack(JSON.parse(embedded.textContent));
    variants = doc.variants ?? [];
    given = doc;
    state.arrive(doc, doc.hands_on?.edits ?? []);
    return doc;
  }

  function info(ref, doc = state.get().doc) {
    let found = doc?.arrays?.[ref];
    while (found?.same) {
      found = doc.arrays[found.same];
    }
    return found ?? null;
  }

  async function array(ref, index = null, doc = state.get().doc) {
    if (index !== null && !Array.isArray(index)) {
      return array(ref, null, index);          // array(ref, doc)
    }
    const found = info(ref, doc);
    if (!found) {
      throw new Error(t("store.unknown", { ref }));
    }
    if (found.data !== undefined && found.data !== null) {
      const whole = decode(found);
      return index ? cut(whole, index) : whole;
    }
    if (!live) {
      throw new Error(t("store.left_out", { ref }));
    }
    if (decoded.has(found)) {
      return index ? cut(decoded.get(found), index) : decoded.get(found);
    }
    const wanted = index ?? found.shape.map((length) => [0, length]);
    const answer = decode(await ask("api/array", { document: doc.id, ref, index: wanted }));
    if (!index) {
      decoded.set(found, { ...found, ...answer });
    }
    return answer;
  }

  function decode(found) {
    if (!decoded.has(found)) {
      const { shape, dtype, min, max, zeros } = found;
      const bytes = fromBase64(found.data);
      const data = new TYPES[dtype](bytes.buffer, 0, bytes.length / TYPES[dtype].BYTES_PER_ELEMENT);
      decoded.set(found, { shape, dtype, min, max, zeros, data });
    }
    return decoded.get(found);
  }

  async function spell(ref, index, { here = false } = {}) {
    const doc = state.get().doc;
    if (live && !(here && holds(ref))) {
      return reviveNumbers(await ask("api/spell", { document: doc.id, ref, index }));
    }
    return spellIn(doc, ref, index, array);
  }

  // Whether the page itself has all arrays that the formula of a ref needs.
  function holds(ref) {
    return refsFor(state.get().doc, ref).every(([, needed]) => needed && typeof info(needed)?.data === "string");
  }

  async function nudge(value, index, number) {
    if (!live) {
      throw new Error(t("store.needs_server"));
    }
    return ask("api/nudge", { document: state.get().doc.id, value, index, number });
  }

  // Only the latest edit counts: an answer that comes after a newer question is dropped.
  async function edit(edits) {
    latest += 1;
    const mine = latest;
    state.update({ busy: true }, { replace: true });
    try {
      const doc = await documentOf(edits);
      if (mine === latest) {
        const changes = { doc, edits: doc.hands_on?.edits ?? edits, busy: false, problem: null };
        changes.base = await baseOf(edits, doc);
        state.update({ ...changes, ...stillThere(doc, state.get()) }, { replace: true });
      }
      return doc;
    } catch (error) {
      if (mine === latest) {
        const problem = error.ended ? error.message : t("store.kept", { problem: error.message });
        state.update({ busy: false, problem }, { replace: true });
      }
      throw error;
    }
  }

  // What an edited document is compared with: the document of its text edits alone, so that both have the same tokens.
  async function baseOf(edits, doc) {
    const texts = edits.filter(({ kind }) => kind === "text");
    if (texts.length === edits.length) {
      return doc;
    }
    const { base } = state.get();
    const isIt = same(base.hands_on?.edits ?? [], texts);
    return isIt ? base : documentOf(texts);
  }

  async function documentOf(edits) {
    if (live) {
      return ask("api/document", { edits });
    }
    if (!can(edits)) {
      throw new Error(t("store.needs_server"));
    }
    const found = variants.find((one) => same(one.edits, edits));
    return found ? (found.whole ??= together(given, found)) : given;
  }

  // Whether the page can show the step after these edits: with a server all that make sense, without one those that were saved.
  function can(edits) {
    return live ? Boolean(given?.hands_on) : edits.length === 0 || variants.some((one) => same(one.edits, edits));
  }

  async function ask(address, body) {
    let response;
    try {
      response = await fetch(address, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
    } catch (error) {
      return fail(t("store.ended", { command: state.get().doc?.command ?? "numpy-transformer explore" }), { ended: true });
    }
    let answer;
    try {
      answer = await response.json();
    } catch (error) {
      return fail(t("store.unreadable", { status: response.status }));
    }
    if (!response.ok || typeof answer?.error === "string") {       // the error of a nudge is a number
      return fail(answer?.error ? asSentence(answer.error) : t("store.unreadable", { status: response.status }));
    }
    return answer;
  }

  function fail(sentence, { ended = false } = {}) {
    state.update({ problem: sentence }, { replace: true });
    throw Object.assign(new Error(sentence), { ended });
  }

  return { live, start, info, array, slice: array, spell, holds, nudge, documentOf, can, edit, comparisons: () => given?.comparisons ?? [] };
}

function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// The document of a saved page is compressed.
async function unpack({ packed }) {
  const bytes = new Blob([fromBase64(packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(bytes).text());
}

// Another step of a saved page, which holds of it what differs from its own.
function together(base, { edits, arrays, without, ...other }) {
  const kept = Object.entries(base.arrays).filter(([ref]) => !without.includes(ref));
  return { ...base, ...other, arrays: { ...Object.fromEntries(kept), ...arrays } };
}

// The server's errors are written as on the command line, where they follow the name of the command.
function asSentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?。！？]$/.test(text) ? "" : "."}`;
}

function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) {
    bytes[i] = raw.charCodeAt(i);
  }
  return bytes;
}

// A part of an array in C order; index holds a number or [start, stop] for each axis.
export function cut({ shape, dtype, data }, index) {
  const ranges = shape.map((length, axis) => {
    const item = index[axis] ?? [0, length];
    return Array.isArray(item) ? [Math.max(0, item[0]), Math.min(length, item[1])] : [item, item + 1];
  });
  const kept = ranges.filter((_, axis) => Array.isArray(index[axis] ?? [])).map(([start, stop]) => stop - start);
  const result = new data.constructor(ranges.reduce((size, [start, stop]) => size * (stop - start), 1));
  let written = 0;
  const walk = (axis, offset) => {
    if (axis === shape.length) {
      result[written] = data[offset];
      written += 1;
      return;
    }
    for (let i = ranges[axis][0]; i < ranges[axis][1]; i += 1) {
      walk(axis + 1, offset * shape[axis] + i);
    }
  };
  walk(0, 0);
  return { shape: kept, dtype, data: result };
}

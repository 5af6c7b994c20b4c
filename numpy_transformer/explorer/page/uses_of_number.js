// Where a number goes on to: cells of other arrays whose formula uses it. Axes that both arrays have keep their entry;
// along the others the same number is taken (a reshape only moves numbers), or else the largest one. The formula of that
// cell must really contain the number; otherwise the next one is tried.

import { goesTo, refOfName } from "explorer/derivation";
import { axesOf, parseRef } from "explorer/refs";

const TRIES = { here: 60, asked: 12 };
const PATIENCE = 200; // milliseconds for each array; a reader who moves on must not wait for a search
const MOST_CELLS = 60000;

// [{ref, op, name, index, number}]; index is null where no cell was found within the tries.
export async function onward({ store, state }, ref, index) {
  const { doc } = state.get();
  const found = [];
  for (const target of goesTo(doc, ref)) {
    const cell = await cellThatUses({ store, doc }, ref, index, target);
    found.push({ ...target, ...cell });
  }
  return found;
}

async function cellThatUses({ store, doc }, ref, index, target) {
  const nothing = { index: null, number: null };
  const sameCell = parseRef(ref).kind === "contribution";
  if (sameCell) return { index, number: await numberAt(store, target.ref, index) };
  if (!target.op.formulas || !target.op.formulas[target.name]) return nothing;

  const { shape } = store.info(target.ref);
  const request = sharedEntries(doc, ref, store.info(ref).shape, index, target.ref, shape);
  const free = request.filter(Array.isArray).reduce((product, [, stop]) => product * stop, 1);
  if (free > MOST_CELLS) return nothing;
  const { data } = await store.slice(target.ref, request);
  if (isId(store, ref)) return first(data, request);
  const number = await numberAt(store, ref, index);
  const tries = store.holds(contributionOf(doc, target)) ? TRIES.here : TRIES.asked;
  const end = performance.now() + PATIENCE;
  const alike = likeness(store.info(ref).shape, index, request);
  const candidates = Array.from(data.keys(), (i) => ({ i, candidate: unflatten(i, request) }));
  const equal = ({ i }) => Number(Number(data[i]) === number);
  candidates.sort((a, b) => equal(b) - equal(a) || alike(b.candidate) - alike(a.candidate) || sizeOf(data[b.i]) - sizeOf(data[a.i]));
  for (const { i, candidate } of candidates.slice(0, tries)) {
    if (performance.now() > end) return nothing;
    if (await uses({ store, doc }, target, candidate, ref, index)) return { index: candidate, number: Number(data[i]) };
  }
  return nothing;
}

// Ids and targets say which row is read: every number of the token's row depends on them, and the first will do.
function isId(store, ref) {
  return store.info(ref).dtype === "int32";
}

function first(data, request) {
  return { index: unflatten(0, request), number: Number(data[0]) };
}

function sizeOf(number) {
  return Number.isFinite(Number(number)) ? Math.abs(Number(number)) : -1;
}

// For each axis of the target: the entry of the source's axis of the same name and length, or the whole axis.
function sharedEntries(doc, ref, shape, index, targetRef, targetShape) {
  const axes = axesOf(doc, ref, shape);
  const taken = new Set();
  return axesOf(doc, targetRef, targetShape).map((axis, i) => {
    const j = axes.findIndex((other, k) => !taken.has(k) && other.name === axis.name && shape[k] === targetShape[i]);
    if (j < 0) return [0, targetShape[i]];
    taken.add(j);
    return index[j];
  });
}

// How many of the free axes take an entry that the source has on an axis of the same length: the row of a query is
// sought first at the token of that query, whatever the axes are called.
function likeness(shape, index, request) {
  const entries = new Set(index.map((i, axis) => `${shape[axis]}:${i}`));
  const free = request.map((item, axis) => (Array.isArray(item) ? axis : -1)).filter((axis) => axis >= 0);
  return (candidate) => free.filter((axis) => entries.has(`${request[axis][1]}:${candidate[axis]}`)).length;
}

function unflatten(flat, request) {
  let rest = flat;
  const index = [...request];
  for (let axis = request.length - 1; axis >= 0; axis -= 1) {
    if (!Array.isArray(request[axis])) continue;
    const size = request[axis][1];
    index[axis] = rest % size;
    rest = Math.floor(rest / size);
  }
  return index;
}

async function uses({ store, doc }, target, candidate, ref, index) {
  const spelled = await store.spell(contributionOf(doc, target), candidate, { here: true });
  const wanted = index.join(",");
  return (
    Boolean(spelled) &&
    spelled.entries.some((entry) => refOfName(doc, target.op, entry.array) === ref && entry.index.join(",") === wanted)
  );
}

// What this op sends to an array with several consumers stands in an array of its own.
function contributionOf(doc, target) {
  return target.name.startsWith("d") ? refOfName(doc, target.op, target.name) : target.ref;
}

async function numberAt(store, ref, index) {
  const { data } = await store.slice(ref, index);
  return Number(data[0]);
}

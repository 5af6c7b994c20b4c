// The value of one entry of an array, worked out by its formula, with every number on the way: what formulas/evaluator.py
// does in Python. FORMAT.md describes formulas (NODE) and what comes out (a spelling with TERMs). Arrays are {shape, data}.
// A scope maps the name of each index variable to [value, length of its axis]; "..." to a list of such pairs.

import { derivationOf, refOfName } from "explorer/derivation";
import { formatCount } from "explorer/format";
import { ARITHMETIC, COMPARE, FUNCTIONS, REDUCE } from "explorer/operations";
import { entriesOf, walk } from "explorer/spelling";
import { t } from "explorer/strings";

const LISTED = 5000; // terms of intermediate entries that a spelling lists, about
const MOST = 500000; // terms that are worked out for one number

const KINDS = {
  number, let: letIn, entry, neg: negative, sum: reduction, mean: reduction, max: reduction, call, where, compare,
  and: conjunction, var: variable, add: arithmetic, sub: arithmetic, mul: arithmetic, div: arithmetic, pow: arithmetic,
  "//": arithmetic, "%": arithmetic,
};

// The spelling of the entry at `index` of the array `ref` of a document, or null if no formula gives it. `array` is a
// function from a ref to a promise of {shape, data}.
export async function spellIn(doc, ref, index, array) {
  const { formula } = derivationOf(doc, ref);
  if (!formula) {
    return null;
  }
  const arrays = {};
  for (const [name, needed] of refsFor(doc, ref)) {
    arrays[name] = await array(needed);
  }
  return evaluate(formula, arrays, index);
}

// The arrays that the formula of a ref needs, as pairs of their name in it and their ref.
export function refsFor(doc, ref) {
  const { op, target, formula } = derivationOf(doc, ref);
  if (!formula) {
    return [];
  }
  const shaped = target in op.outputs ? target : target.slice(1); // dx has the shape of x
  return [shaped, ...namesIn(formula)].map((name) => [name, refOfName(doc, op, name)]);
}

// Names of the arrays that a formula reads.
function namesIn(formula) {
  const intermediates = new Set();
  const names = new Set();
  const visit = (node) => {
    if (node === null || typeof node !== "object") {
      return;
    }
    if (node.let) {
      intermediates.add(node.let);
    }
    if (node.entry) {
      names.add(node.entry);
    }
    Object.values(node).forEach(visit);
  };
  visit(formula.body);
  return [...names].filter((name) => !intermediates.has(name));
}

// The spelling of one entry.
export function evaluate(formula, arrays, index) {
  const { target } = formula;
  const shape = (arrays[target] ?? arrays[target.slice(1)]).shape;
  if (index.length !== shape.length || index.some((i, axis) => !(i >= 0 && i < shape[axis]))) {
    throw new Error(t("formula.no_entry", { name: target, index: index.join(", "), shape: shape.join(" × ") }));
  }
  const work = { target, arrays, definitions: {}, known: new Map(), count: 0 };
  const scope = bind(formula.index, index.map((i, axis) => [i, shape[axis]]));
  const tree = term(work, formula.body, scope);
  const named = reachable(work, tree);
  return { target, index: [...index], value: tree.value, tree, named, entries: entriesOf([tree, ...Object.values(named)]) };
}

function term(work, node, scope) {
  work.count += 1;
  if (work.count > MOST) {
    throw new Error(t("formula.too_long", { name: work.target, most: formatCount(MOST) }));
  }
  const kind = Object.keys(KINDS).find((key) => key in node);
  return KINDS[kind](work, node, scope);
}

function number(work, node) {
  const value = Number(node.number === "inf" ? Infinity : node.number);
  const result = { kind: "number", value, terms: [] };
  return node.name === undefined ? result : { ...result, name: node.name };
}

function variable(work, node, scope) {
  return { kind: "var", value: scope[node.var][0], terms: [], name: node.var };
}

function entry(work, node, scope) {
  const name = node.entry;
  if (name in work.definitions) {
    return namedEntry(work, name, node.index, scope);
  }
  const array = work.arrays[name];
  if (!array) {
    throw new Error(t("formula.no_array", { name }));
  }
  const index = placeIn(work, name, array.shape, node.index, scope);
  const offset = index.reduce((sum, i, axis) => sum * array.shape[axis] + i, 0);
  return { kind: "entry", value: Number(array.data[offset]), terms: [], array: name, index };
}

function namedEntry(work, name, items, scope) {
  const places = placesOf(work, items, scope);
  const index = places.map(([value]) => value);
  const key = `${name}[${index}]`;
  if (!work.known.has(key)) {
    work.known.set(key, { name, places, value: derivation(work, name, places).value });
  }
  return { kind: "named", value: work.known.get(key).value, terms: [], array: name, index, key };
}

// The evaluated definition of one entry of an intermediate array.
function derivation(work, name, places) {
  const definition = work.definitions[name];
  return term(work, definition.is, bind(definition.index, places));
}

function letIn(work, node, scope) {
  work.definitions[node.let] = node;
  return term(work, node.in, scope);
}

// [value, length of the axis or null] for each axis that the items of an index stand for.
function placesOf(work, items, scope) {
  return items.flatMap((item) => {
    if (item.rest) {
      return scope["..."] ?? [];
    }
    return [item.var ? scope[item.var] : [term(work, item.at, scope).value, null]];
  });
}

// The index into an array of this shape: broadcast, and aligned at the right where "..." stands.
function placeIn(work, name, shape, items, scope) {
  let places = placesOf(work, items, scope);
  const missing = shape.length - places.length;
  const start = items.findIndex((item) => item.rest);
  if (start >= 0 && missing !== 0) {
    const zeros = Array(Math.max(missing, 0)).fill([0, null]);
    places = [...places.slice(0, start), ...zeros, ...places.slice(start + Math.max(-missing, 0))];
  }
  const index = places.map(([value, length], axis) => fit(value, length, shape[axis]));
  if (places.length !== shape.length || index.some((i, axis) => !(i >= 0 && i < shape[axis]))) {
    throw new Error(t("formula.other_shape", { name, index: index.join(", "), shape: shape.join(" × ") }));
  }
  return index;
}

// The entry of an axis of `size` that belongs to entry `value` of an axis of `length` entries.
function fit(value, length, size) {
  if (size === 1) {
    return 0;
  }
  if (length !== null && length > size && length % size === 0) {
    return Math.floor(value / (length / size));
  }
  return value;
}

function arithmetic(work, node, scope) {
  const kind = Object.keys(ARITHMETIC).find((key) => key in node);
  const terms = node[kind].map((part) => term(work, part, scope));
  const value = terms.slice(1).reduce((left, right) => ARITHMETIC[kind](left, right.value), terms[0].value);
  return { kind, value, terms };
}

function negative(work, node, scope) {
  const of = term(work, node.neg, scope);
  return { kind: "neg", value: -of.value, terms: [of] };
}

function call(work, node, scope) {
  const of = term(work, node.of, scope);
  return { kind: "call", value: FUNCTIONS[node.call](of.value), terms: [of], name: node.call };
}

function where(work, node, scope) {
  const condition = term(work, node.where, scope);
  const taken = Boolean(condition.value);
  const branch = term(work, taken ? node.then : node.else, scope);
  return { kind: "where", value: branch.value, terms: [branch], taken, condition };
}

function compare(work, node, scope) {
  const terms = [term(work, node.left, scope), term(work, node.right, scope)];
  return { kind: "compare", value: COMPARE[node.compare](terms[0].value, terms[1].value), terms, name: node.compare };
}

function conjunction(work, node, scope) {
  const terms = node.and.map((part) => term(work, part, scope));
  return { kind: "and", value: terms.every((part) => Boolean(part.value)), terms };
}

// A sum, mean or maximum. Terms whose condition does not hold are left out.
function reduction(work, node, scope) {
  const kind = Object.keys(REDUCE).find((key) => key in node);
  const over = node.over.map((range) => range.var ?? "...");
  const terms = [];
  const places = [];
  for (const values of product(node.over.map((range) => rangeOf(work, range, scope)))) {
    const inner = { ...scope };
    const place = {};
    over.forEach((name, i) => {
      inner[name] = values[i];
      place[name] = name === "..." ? values[i].map(([value]) => value) : values[i][0];
    });
    if (!node.if || term(work, node.if, inner).value) {
      terms.push(term(work, node[kind], inner));
      places.push(place);
    }
  }
  return { kind, value: REDUCE[kind](terms.map((part) => part.value)), terms, over, places };
}

// What a variable of a sum runs through: [value, length] pairs, or lists of them for "...".
function rangeOf(work, range, scope) {
  if (range.count) {
    return upTo(term(work, range.count, scope).value).map((i) => [i, null]);
  }
  const { shape } = work.arrays[range.array];
  if (range.rest) {
    return product(shape.slice(0, shape.length - range.less).map((size) => upTo(size).map((i) => [i, size])));
  }
  const size = shape.at(range.axis);
  return upTo(size).map((i) => [i, size]);
}

const upTo = (n) => Array.from({ length: n }, (_, i) => i);

// All ways to choose one item of each list, the last list varying fastest.
function product(lists) {
  return lists.reduce((chosen, list) => chosen.flatMap((before) => list.map((item) => [...before, item])), [[]]);
}

// The scope in which the items of a definition's index stand for these places.
function bind(items, places) {
  const scope = {};
  const rest = items.findIndex((item) => item.rest);
  items.forEach((item, i) => {
    if (item.rest) {
      scope["..."] = places.slice(i, places.length - (items.length - i - 1));
    } else {
      scope[item.var] = rest >= 0 && i > rest ? places[places.length - items.length + i] : places[i];
    }
  });
  return scope;
}

// The intermediates that a tree leads to, nearest first, until they have LISTED terms.
function reachable(work, tree) {
  const found = {};
  const waiting = [tree];
  let count = 0;
  for (const next of waiting) {
    for (const { kind, key } of walk(next)) {
      if (kind === "named" && !(key in found) && count < LISTED) {
        const { name, places } = work.known.get(key);
        found[key] = derivation(work, name, places);
        count += walk(found[key]).length;
        waiting.push(found[key]);
      }
    }
  }
  return found;
}

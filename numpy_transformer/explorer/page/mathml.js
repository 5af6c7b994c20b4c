// A formula of the document as MathML: a line for each intermediate array, one for the formula itself, and one that
// says what the named numbers are. A writer of a NODE returns [elements, strength]; what is weaker than its
// surroundings is put in parentheses.

import { h } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { t } from "explorer/strings";
import { symbolOf } from "explorer/symbols";

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

const LOOSE = 1; // a sum or a difference
const TIGHT = 2; // a product
const ATOM = 3;

const ROW = "r";

const REDUCTIONS = ["sum", "mean", "max"];

const COMPARISONS = { "<=": "≤", ">=": "≥", "==": "=", "!=": "≠" };

// Lines that `written` names already are left out: several formulas of an operation may begin with the same intermediate arrays.
export function formulaToMathML(formula, written = new Set()) {
  const summed = hasSumOverLeadingAxes(formula.body);
  const isNew = (key) => {
    const before = written.has(key);
    written.add(key);
    return !before;
  };
  const { index, body } = nameLeadingAxes({ index: formula.index, body: formula.body }, summed);
  const lines = [];
  let node = body;
  let given = formula.body;
  while (node.let) {
    if (isNew(JSON.stringify([given.let, given.index, given.is]))) {
      lines.push(equation({ entry: node.let, index: node.index }, node.is));
    }
    node = node.in;
    given = given.in;
  }
  lines.push(equation({ entry: formula.target, index }, node));
  const numbers = namedNumbers(body).filter(([name]) => isNew(`number ${name}`));
  if (numbers.length) {
    lines.push(legend(numbers));
  }
  if (summed && isNew("rows")) {
    lines.push(h("div", { class: "formula-line formula-numbers" }, h("i", {}, ROW), `: ${t("formula.rows")}`));
  }
  return lines;
}

// What holds for each row by itself is written without the leading axes ("..."). A sum over them calls them r.
function nameLeadingAxes(node, summed) {
  if (Array.isArray(node)) {
    return node.filter((part) => summed || !part.rest || part.array).map((part) => nameLeadingAxes(part, summed));
  }
  if (node === null || typeof node !== "object") {
    return node;
  }
  if (node.rest) {
    return { var: ROW };
  }
  return Object.fromEntries(Object.entries(node).map(([key, part]) => [key, nameLeadingAxes(part, summed)]));
}

function hasSumOverLeadingAxes(node) {
  if (node === null || typeof node !== "object") {
    return false;
  }
  return Boolean(node.rest && node.array) || Object.values(node).some(hasSumOverLeadingAxes);
}

function equation(left, right) {
  const sign = m("mo", {}, "=");
  return line("formula-line", m("mrow", {}, ...inside(left), sign, ...inside(right)));
}

// "ε = 0.00001, d = 8": what stands behind the letters.
function legend(numbers) {
  const parts = numbers.flatMap(([name, value], i) => [
    ...(i ? [m("mo", { separator: "true" }, ","), m("mspace", { width: "0.6em" })] : []),
    letters(name), m("mo", {}, "="), m("mn", {}, fullNumber(value)),
  ]);
  return line("formula-line formula-numbers", m("mrow", {}, ...parts));
}

function line(name, content) {
  return h("div", { class: name }, m("math", { displaystyle: "true" }, content));
}

function namedNumbers(body) {
  const found = new Map();
  const visit = (node) => {
    if (node !== null && typeof node === "object") {
      if (node.name && node.number !== undefined && !["pi", "inf"].includes(node.name)) {
        found.set(node.name, node.number);
      }
      Object.values(node).forEach(visit);
    }
  };
  visit(body);
  return [...found];
}

// The elements of a node, in parentheses if they hold together less than `strength`.
function inside(node, strength = LOOSE) {
  const [elements, own] = write(node);
  return own < strength ? [parenthesized(elements)] : elements;
}

// A row of its own, so that the parentheses become as tall as what stands between them and no taller.
function parenthesized(elements) {
  return m("mrow", {}, m("mo", {}, "("), ...elements, m("mo", {}, ")"));
}

function write(node) {
  const kind = Object.keys(WRITERS).find((key) => key in node);
  return WRITERS[kind](node);
}

const WRITERS = {
  number: ({ number, name }) => [[name ? letters(name) : m("mn", {}, formatNumber(Number(number)))], ATOM],
  var: (node) => [[letters(node.var)], ATOM],
  entry: ({ entry, index }) => [[indexed(entry, index)], ATOM],
  add: (node) => [joined(node.add, () => m("mo", {}, "+"), LOOSE), LOOSE],
  sub: ({ sub: [left, right] }) => [[...inside(left), m("mo", {}, "−"), ...last(right)], LOOSE],
  neg: (node) => [[m("mo", { form: "prefix" }, "−"), ...last(node.neg)], LOOSE],
  mul: (node) => [product(node.mul), TIGHT],
  div: ({ div: parts }) => [[m("mfrac", {}, ...parts.map((part) => m("mrow", large(part), ...inside(part))))], ATOM],
  "//": (node) => [[m("mo", { stretchy: "false" }, "⌊"), ...joined(node["//"], () => m("mo", {}, "/"), ATOM),
                    m("mo", { stretchy: "false" }, "⌋")], ATOM],
  "%": (node) => [joined(node["%"], () => m("mo", {}, "mod"), ATOM), TIGHT],
  pow: (node) => [[power(node.pow)], ATOM],
  call: (node) => [called(node), ATOM],
  compare: (node) => [compared(node), LOOSE],
  and: (node) => [joined(node.and, () => m("mo", {}, "∧"), LOOSE), LOOSE],
  where: (node) => [[cases(node)], ATOM],
  sum: (node) => [reduced(m("mo", { largeop: "true" }, "∑"), node, node.sum), LOOSE],
  mean: (node) => [reduced(m("mo", { movablelimits: "true", rspace: "0.17em" }, "mean"), node, node.mean), LOOSE],
  max: (node) => [reduced(m("mo", { movablelimits: "true", rspace: "0.17em" }, "max"), node, node.max), LOOSE],
};

function joined(nodes, signBefore, strength) {
  return nodes.flatMap((node, i) => [...(i ? [signBefore(node)] : []), ...inside(node, strength)]);
}

function compared({ compare, left, right }) {
  return [...inside(left), m("mo", {}, COMPARISONS[compare] ?? compare), ...inside(right)];
}

// The last term of a product or difference: a sum there needs no parentheses, as nothing follows that could belong to it.
function last(node) {
  return inside(node, REDUCTIONS.some((kind) => kind in node) ? LOOSE : TIGHT);
}

function product(factors) {
  const end = factors.at(-1);
  return [...joined(factors.slice(0, -1), timesBefore, TIGHT), timesBefore(end), ...last(end)];
}

// x² of an entry with indices has both at the same place, one above the other.
function power([base, exponent]) {
  const [written] = inside(base, ATOM);
  if (base.entry && written.localName === "msub") {
    return m("msubsup", {}, ...written.childNodes, row(inside(exponent)));
  }
  return m("msup", {}, row(inside(base, ATOM)), row(inside(exponent)));
}

// Factors stand side by side; a dot comes only before a number, which would look like a part of what precedes it.
function timesBefore(node) {
  return node.number !== undefined && !node.name ? m("mo", {}, "·") : m("mspace", { width: "0.17em" });
}

function called({ call, of }) {
  if (call === "sqrt") {
    return [m("msqrt", {}, ...inside(of))];
  }
  if (call === "abs") {
    return [m("mo", { stretchy: "false" }, "|"), ...inside(of), m("mo", { stretchy: "false" }, "|")];
  }
  const argument = call === "log1p" ? [m("mn", {}, "1"), m("mo", {}, "+"), ...inside(of)] : inside(of);
  const name = call === "log1p" ? "log" : call;
  return [m("mi", {}, name), parenthesized(argument)];
}

function cases(node) {
  const branch = (value, ...condition) => m("mtr", {},
    m("mtd", { displaystyle: "true" }, ...inside(value)), m("mtd", {}, ...condition));
  return m("mrow", {}, m("mo", { stretchy: "true", form: "prefix" }, "{"),
    m("mtable", {},
      branch(node.then, m("mtext", {}, `${t("formula.if")}\u00a0`), ...inside(node.where)),
      branch(node.else, m("mtext", {}, t("formula.otherwise")))));
}

// A sum, mean or maximum with what it runs over standing below.
function reduced(sign, node, body) {
  const below = node.over.flatMap((range, i) => [
    ...(i ? [m("mo", { separator: "true" }, ",")] : []),
    letters(range.var),
    ...(range.count ? [m("mo", {}, "<"), ...inside(range.count)] : []),
  ]);
  const condition = node.if ? [m("mo", { separator: "true" }, ":"), ...inside(node.if)] : [];
  return [m("munder", {}, sign, row([...below, ...condition])), ...inside(body, TIGHT)];
}

// An entry: its indices as a subscript.
function indexed(name, index) {
  if (index.length === 0) {
    return letters(name);
  }
  const places = index.flatMap((item, i) => [...(i ? [m("mo", { separator: "true" }, ",")] : []), ...place(item)]);
  return m("msub", {}, letters(name), row(places));
}

function place(item) {
  return item.var ? [letters(item.var)] : inside(item.at);
}

// A name as mathematics writes it: γ for gamma, x̂ for x_hat, dW for dweight.
function letters(name) {
  const { d, text, hat } = symbolOf(name);
  const letter = m("mi", text.length > 1 ? { mathvariant: "normal" } : {}, text);
  const whole = hat ? m("mover", { accent: "true" }, letter, m("mo", { stretchy: "false" }, "^")) : letter;
  return m("mrow", { "data-name": name }, ...(d ? [m("mi", { mathvariant: "normal" }, "d"), whole] : [whole]));
}

// In a fraction, a sum keeps its size, with what it runs over below it.
function large(node) {
  return JSON.stringify(node).includes('"over":') ? { displaystyle: "true" } : {};
}

function row(elements) {
  return elements.length === 1 ? elements[0] : m("mrow", {}, ...elements);
}

function m(tag, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

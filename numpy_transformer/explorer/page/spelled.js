// One entry of an array, written out with its numbers. A formula that was evaluated for one index (FORMAT.md, "the
// evaluated formula") becomes a line of text in which every number is a link to its cell; the sums in it become lists of
// terms, the largest first. The line is HTML and not MathML, so that it wraps in a narrow panel.

import { h } from "explorer/dom";
import { formatNumber, fullNumber, shortestNumber } from "explorer/format";
import { t } from "explorer/strings";
import { symbolText } from "explorer/symbols";
import { sizeOf, termList } from "explorer/terms";

const LOOSE = 1; // a sum or difference
const TIGHT = 2; // a product
const POWER = 3;
const ATOM = 4;
const REDUCTIONS = ["sum", "mean", "max"];

// `context`: {spelled, link(name, index, number) -> element, placeName(variable, i) -> text}
export function spelledOut(context) {
  const { tree } = context.spelled;
  const sums = outerSums(tree);
  const write = writer({ ...context, inlineTerms: sums.length === 1 ? 3 : 0 });
  const line = h("div", { class: "spelled-line spelled-main" }, ...write.inside(tree, LOOSE));
  const lists = sums.map((sum) => termList(sum, { ...context, write: writer({ ...context, inlineTerms: 0 }) }));
  const named = namedIn(tree).map((term) => write.namedLine(term, false));
  const result = h(
    "p",
    { class: "result" },
    "= ",
    h("b", { class: "number", title: fullNumber(tree.value) }, formatNumber(tree.value, 4)),
  );
  return h(
    "div",
    { class: "spelled" },
    line,
    result,
    named.length > 0 && h("div", { class: "spelled-named" }, named),
    ...lists,
  );
}

// The intermediate results of a tree, each once; those inside a sum are opened from its terms.
function namedIn(term, found = new Map()) {
  if (term.kind === "named") found.set(term.key, term);
  if (!REDUCTIONS.includes(term.kind)) (term.terms || []).forEach((part) => namedIn(part, found));
  return [...found.values()];
}

// The sums of a tree that stand in no other sum.
function outerSums(term) {
  if (REDUCTIONS.includes(term.kind)) return term.terms.length > 1 ? [term] : [];
  return (term.terms || []).flatMap(outerSums);
}

// `lead` tells whether a term begins its line or parenthesis: a negative number anywhere else stands in parentheses of
// its own, as in 0.3 · (−0.2).
function writer(context) {
  const inside = (term, outer = LOOSE, lead = true) => {
    const [nodes, strength] = write(term, lead);
    return strength < outer ? ["(", ...write(term, true)[0], ")"] : nodes;
  };
  const operand = (term, outer, lead) => {
    const plain = ["entry", "number", "var"].includes(term.kind);
    return plain && !lead && term.value < 0 ? ["(", ...inside(term, outer), ")"] : inside(term, outer, lead);
  };
  const joined = (terms, sign, outer, lead = true) =>
    terms.flatMap((term, i) => [...(i ? [sign] : []), ...operand(term, outer, lead && i === 0)]);

  function write(term, lead) {
    const [a, b] = term.terms || [];
    switch (term.kind) {
      case "entry":
        return [[context.link(term.array, term.index, term.value)], ATOM];
      case "named":
        return [[chip(term, term.array, () => namedLine(term))], ATOM];
      case "number":
      case "var":
        return [[plainNumber(term)], ATOM];
      case "add":
        return [joined(term.terms, " + ", LOOSE, lead), LOOSE];
      case "sub":
        return [[...operand(a, LOOSE, lead), " − ", ...operand(b, TIGHT, false)], LOOSE];
      case "mul":
        return [joined(term.terms, " · ", TIGHT, lead), TIGHT];
      case "neg":
        return [["−", ...operand(a, TIGHT, false)], LOOSE];
      case "div":
        return [[fraction(inside(a), inside(b))], ATOM];
      case "pow":
        return [[...operand(a, ATOM, false), h("sup", {}, ...inside(b))], POWER];
      case "call":
        return [call(term.name, inside(a)), ATOM];
      case "where":
        return write(a, lead);
      case "sum":
      case "mean":
      case "max":
        return sumInLine(term, lead);
      default:
        return [[formatNumber(term.value)], ATOM];
    }
  }

  function sumInLine(term, lead) {
    if (term.terms.length === 0) return [[formatNumber(0)], ATOM];
    if (term.terms.length === 1 && term.kind !== "mean") return write(term.terms[0], lead);
    const open = () => termList(term, { ...context, write: writer({ ...context, inlineTerms: 0 }) });
    if (term.kind === "sum" && context.inlineTerms) return [firstTerms(term, lead), LOOSE];
    return [[chip(term, sumSign(term), open)], ATOM];
  }

  // The largest terms, then how many are left and what they add.
  function firstTerms(term, lead) {
    const bySize = [...term.terms].sort((left, right) => sizeOf(right) - sizeOf(left));
    const nonzero = Math.max(1, bySize.filter((each) => each.value !== 0).length);
    const count = nonzero <= context.inlineTerms + 1 ? nonzero : context.inlineTerms;
    const shown = bySize.slice(0, count);
    const rest = bySize.slice(count);
    const nodes = joined(shown, " + ", TIGHT, lead);
    if (!rest.length) return nodes;
    const total = rest.reduce((sum, each) => sum + each.value, 0);
    return [
      ...nodes,
      " + ",
      h("span", { class: "rest" }, t("spelled.more", { n: rest.length, total: formatNumber(total) })),
    ];
  }

  // An intermediate result and its own derivation, with the terms of its sums or with a chip for each of them.
  function namedLine(term, withTerms = true) {
    const tree = (context.spelled.named || {})[term.key];
    if (!tree) return h("p", { class: "spelled-line muted" }, t("spelled.not_sent"));
    const name = `${symbolText(term.array)}[${term.index.join(", ")}] = `;
    const quiet = writer({ ...context, inlineTerms: 0 });
    const line = h(
      "div",
      { class: "spelled-line" },
      name,
      ...quiet.inside(tree),
      " = ",
      h("b", {}, formatNumber(term.value)),
    );
    const lists = withTerms ? outerSums(tree).map((sum) => termList(sum, { ...context, write: quiet })) : [];
    return h("div", { class: "spelled-nested" }, line, ...lists);
  }

  return { inside, namedLine };
}

// A number that stands for a computation of its own. Pressing it opens that computation after the present line.
function chip(term, label, open) {
  const button = h(
    "button",
    { type: "button", class: "chip", "aria-expanded": "false", title: fullNumber(term.value) },
    h("span", { class: "chip-name" }, symbolNode(label)),
    formatNumber(term.value),
  );
  let opened = null;
  button.addEventListener("click", () => {
    if (opened) opened.remove();
    else button.closest(".spelled-line").after((opened = h("div", { class: "spelled-nested" }, open())));
    if (!opened.isConnected) opened = null;
    button.setAttribute("aria-expanded", String(Boolean(opened)));
  });
  return button;
}

function sumSign(term) {
  const sign = { sum: "Σ", mean: "mean", max: "max" }[term.kind];
  const names = (term.over || []).map((name) => (name === "..." ? "" : name)).filter(Boolean);
  return names.length ? [sign, h("sub", {}, names.join(","))] : [sign];
}

function symbolNode(label) {
  return typeof label === "string" ? symbolText(label) : label;
}

function plainNumber(term) {
  const text = shortestNumber(term.value);
  return term.name && term.kind === "number" ? h("span", { class: "constant", title: term.name }, text) : text;
}

function fraction(above, below) {
  return h(
    "span",
    { class: "fraction" },
    h("span", { class: "above" }, ...above),
    h("span", { class: "visually-hidden" }, " / "),
    h("span", { class: "below" }, ...below),
  );
}

function call(name, argument) {
  if (name === "sqrt") return ["√(", ...argument, ")"];
  if (name === "abs") return ["|", ...argument, "|"];
  return [name, "(", ...argument, ")"];
}

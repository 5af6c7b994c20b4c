// Where a number comes from: the formula with its numbers, the sum of what several consumers send back, or a sentence
// for inputs and parameters. Each answer is {nodes, cells}; the cells are those that light up in the heatmaps.

import { h } from "explorer/dom";
import { formatNumber } from "explorer/format";
import { formulaView } from "explorer/formula_view";
import { t } from "explorer/strings";
import { derivationOf, refOfName } from "explorer/derivation";
import { numberLink, opLink } from "explorer/links";
import { lookup } from "explorer/lookup";
import { placeNamer } from "explorer/place_names";
import { differs, sumDiffers } from "explorer/rounding";
import { isGradient, parseRef, shortName, slotName, valueOf } from "explorer/refs";
import { spelledOut } from "explorer/spelled";
import { symbolText } from "explorer/symbols";

export async function originOf(app, derivation, ref, index, number) {
  if (derivation.kind === "formula") return fromFormula(app, derivation, ref, index, number);
  if (derivation.kind === "sum") return fromConsumers(app, derivation, index, number);
  const nodes = [
    h("h3", {}, t("number.from")),
    h(
      "p",
      {},
      t(`number.origin.${derivation.kind.replace(" ", "_")}`, {
        op: derivation.op ? derivation.op.class || derivation.op.kind : "",
      }),
    ),
  ];
  if (derivation.kind === "no formula") nodes.push(h("p", {}, opLink(app, derivation.op)));
  return { nodes, cells: [] };
}

async function fromFormula(app, { op, formula, target }, ref, index, number) {
  const { doc } = app.state.get();
  const spelled = await app.store.spell(ref, index);
  if (!spelled) return { nodes: [h("p", {}, t("number.origin.no_formula", { op: op.class }))], cells: [] };

  const refs = new Map();
  const refOf = (name) => {
    if (!refs.has(name)) refs.set(name, refOfName(doc, op, name));
    return refs.get(name);
  };
  const line = spelledOut({
    spelled,
    placeName: placeNamer(app, formula, refOf),
    link: (name, at, value) => (refOf(name) ? numberLink(app, refOf(name), at, value) : formatNumber(value)),
  });
  const cells = spelled.entries
    .map((entry) => ({ ref: refOf(entry.array), index: entry.index }))
    .filter((cell) => cell.ref);
  const phase = target.startsWith("d") && isGradient(ref) ? "backward" : "forward";
  return {
    cells,
    nodes: [
      h("h3", {}, t("number.from")),
      differs(spelled, number) && disagreement(spelled.value, number),
      h(
        "p",
        { class: "note" },
        t(`number.by.${phase}`),
        " ",
        opLink(app, op),
        ` (${op.class || op.kind})`,
        nameInPanel(app, ref) === target ? "" : t("number.as_its", { name: symbolText(target) }),
      ),
      h("div", { class: "formula" }, formulaView(formula, op)),
      h("p", { class: "note" }, t("number.with_numbers")),
      line,
    ],
  };
}

function disagreement(spelled, shown) {
  return h(
    "p",
    { class: "disagreement", role: "alert" },
    t("number.differs", {
      formula: formatNumber(spelled, 4),
      array: formatNumber(shown, 4),
    }),
  );
}

// Several ops used this value: its gradient is the sum of what each of them sends back.
async function fromConsumers(app, { parts }, index, number) {
  const numbers = await Promise.all(
    parts.map(async (part) => Number((await app.store.slice(part.ref, index)).data[0])),
  );
  const line = parts.flatMap((part, i) => {
    const link = numberLink(app, part.ref, index, numbers[i]);
    const shown = i > 0 && numbers[i] < 0 ? ["(", link, ")"] : [link];
    return i > 0 ? [" + ", ...shown] : shown;
  });
  const { doc } = app.state.get();
  const rows = parts.map((part, i) => {
    const op = doc.ops.find((each) => each.id === part.op);
    return h(
      "li",
      {},
      opLink(app, op),
      " ",
      h("span", { class: "mono" }, `d${part.slot}`),
      " = ",
      numberLink(app, part.ref, index, numbers[i]),
    );
  });
  const total = numbers.reduce((sum, each) => sum + each, 0);
  return {
    cells: parts.map((part) => ({ ref: part.ref, index })),
    nodes: [
      h("h3", {}, t("number.from")),
      sumDiffers(numbers, number) && disagreement(total, number),
      h("p", { class: "note" }, t("number.adds", { n: parts.length })),
      h("div", { class: "spelled-line spelled-main" }, line),
      h("p", { class: "result" }, "= ", h("b", { class: "number" }, formatNumber(total, 4))),
      h("ul", { class: "contributions" }, rows),
    ],
  };
}

// What the component in the panel calls the array, so that both speak of the same name. A component has a name for the part
// of a gradient that it sends back (dx); the sum of the parts is called as the component that it reaches calls it (dy).
export function nameInPanel(app, ref) {
  const { doc, op } = app.state.get();
  const { kind, value } = parseRef(ref);
  const item = op ? lookup(doc).node(op) : null;
  const slot = item ? slotName(item, value) : null;
  if (kind === "gradient" && slot && !ownOutput(item, value) && isSum(doc, ref)) return nameOfSum(doc, ref);
  return slot && isGradient(ref) ? `d${slot}` : slot;
}

export function isSum(doc, ref) {
  return parseRef(ref).kind === "gradient" && derivationOf(doc, ref).kind === "sum";
}

function ownOutput(item, id) {
  return Object.values(item.outputs || {}).flat().includes(id);
}

// A parameter or an input has no producer whose dy the sum would be.
function nameOfSum(doc, ref) {
  const { producer } = valueOf(doc, ref);
  const name = shortName(doc, ref);
  return producer ? name : `dL/${symbolText(name)}`;
}

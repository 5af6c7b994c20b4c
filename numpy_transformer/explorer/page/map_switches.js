// Switches on the map: the heads of an attention, its mask, and whole blocks are switched off and on where they stand.

import { s } from "explorer/dom";
import { t } from "explorer/strings";

const WIDTH = 22;
const HEIGHT = 18;

// The switches of a box: [{label, name, edit}] with the edit that switches the part off. A saved page has none.
export function switchesOf(doc, item) {
  const { can } = doc.hands_on ?? {};
  if (!can?.heads || !item) {
    return [];
  }
  const find = (list, group) => (list ?? []).find((entry) => entry.group === group);
  const heads = find(can.heads, item.id);
  const block = find(can.blocks, item.id.replace(/\.skip$/, ""));
  const masked = item.kind === "scores" ? find(can.masks, item.parent.replace(/\.attention$/, "")) ?? find(can.masks, item.parent) : null;
  return [
    ...(heads ? Array.from({ length: heads.count }, (_, head) => ({ label: String(head), name: t("switch.head", { head, title: heads.title }),
      edit: { kind: "off", what: "head", group: heads.group, head } })) : []),
    ...(block ? [{ label: "I", power: true, name: block.title, edit: { kind: "off", what: "block", group: block.group } }] : []),
    ...(masked ? [{ label: t("map.mask"), wide: true, name: t("switch.mask", { title: masked.title }), edit: { kind: "off", what: "mask", group: masked.group } }] : []),
  ];
}

export function switchesWidth(switches, measure) {
  return switches.reduce((width, one) => width + widthOf(one, measure) + 3, 0);
}

function widthOf({ label, wide }, measure) {
  return wide ? measure(label, true) + 12 : WIDTH;
}

// The switches in a row that begins at x, with their middle at y.
export function drawSwitches(switches, edits, x, y, measure) {
  let at = x;
  return switches.map((one) => {
    const width = widthOf(one, measure);
    const on = !edits.some((edit) => JSON.stringify(sorted(edit)) === JSON.stringify(sorted(one.edit)));
    const chip = s("g", { class: "chip-switch", role: "switch", tabindex: 0, "aria-checked": String(on), "aria-label": one.name, "data-edit": JSON.stringify(one.edit),
      transform: `translate(${at} ${y - HEIGHT / 2})` },
    s("title", {}, t(on ? "switch.off" : "switch.on", { name: one.name })),
    s("rect", { width, height: HEIGHT, rx: HEIGHT / 2 }),
    one.power ? s("path", { d: `M${width / 2} 4V9M${width / 2 - 3.5} 6a5 5 0 1 0 7 0`, class: "power" })
      : s("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle", "dominant-baseline": "central" }, one.label));
    at += width + 3;
    return chip;
  });
}

function sorted(edit) {
  return Object.entries(edit).sort(([a], [b]) => (a < b ? -1 : 1));
}

// A number of the page as a link to its cell: it has an address, so it can be opened in a new tab or copied, and a
// plain click goes there without loading the page again.

import { h } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { derivationOf } from "explorer/derivation";
import { isGradient, shortName } from "explorer/refs";
import { writeAddress } from "explorer/address";
import { t } from "explorer/strings";

// Where a link leads: the panel shows the op that computed the number, so that the cells it came from can light up.
export function placeOfNumber(doc, ref, index) {
  const { op } = derivationOf(doc, ref);
  const place = { ref, index, view: "component" };
  return op ? { ...place, op: op.id } : place;
}

export function follow(app, place) {
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
    event.preventDefault();
    app.state.update(place);
  };
}

export function addressOf(app, place) {
  return writeAddress({ ...app.state.get(), slices: {}, ...place });
}

export function numberLink(app, ref, index, number, text = formatNumber(number)) {
  const { doc } = app.state.get();
  const place = placeOfNumber(doc, ref, index);
  const name = `${shortName(doc, ref)}[${index.join(", ")}] = ${fullNumber(number)}`;
  return h(
    "a",
    {
      class: isGradient(ref) ? "number-link is-gradient" : "number-link is-value",
      href: addressOf(app, place),
      title: name,
      "data-ref": ref,
      "data-cell": index.join(","),
      "data-value": String(number),
      onclick: follow(app, place),
    },
    text,
  );
}

export function opLink(app, op, text = opName(op)) {
  const place = { op: op.id, ref: null, index: null, view: "component" };
  return h(
    "a",
    { class: "op-link", href: addressOf(app, place), "data-op": op.id, title: op.id, onclick: follow(app, place) },
    text,
  );
}

// A lone sign reads badly in a sentence.
function opName(op) {
  return op.label === "+" ? t("number.plus") : op.label || op.id;
}

// One array of a component as a row: its numbers and, beside them, its gradient. The two heatmaps show the same slice and
// point at the same cell; below them stands what this cell holds.

import { button, h, replace } from "explorer/dom";
import { formatNumber, fullNumber } from "explorer/format";
import { axisName, t } from "explorer/strings";
import { agrees } from "explorer/agreement";
import { defaultView, heldAxes, viewShowing } from "explorer/array_view";
import { entryChoices, orderChoice } from "explorer/axis_choices";
import { colorBar, zeroCount } from "explorer/color_bar";
import { contributors } from "explorer/derivation";
import { exists } from "explorer/existing";
import { heatmap } from "explorer/heatmap";
import { litIn } from "explorer/highlighted_cells";
import { largestIn } from "explorer/noise";
import { notYet } from "explorer/not_yet";
import { axesOf, contributionRef, gradientRef, indexText, isGradient } from "explorer/refs";
import { saveButton } from "explorer/svg_export";
import { symbolText } from "explorer/symbols";

export function arrayPair(options) {
  return new ArrayPair(options);
}

class ArrayPair {
  // role: "input", "parameter" or "output"; name: what the component calls the array; held: entries chosen by axis name;
  // hint: whether the row says what one can do with it (the first of a panel).
  constructor({ app, value, role, name, op, held, onHold, hint }) {
    Object.assign(this, { app, value, role, name, op, held, onHold, hint });
    this.doc = app.state.get().doc;
    this.shape = value.shape;
    this.axes = axesOf(this.doc, value.id, this.shape);
    this.view = defaultView(this.shape, this.heldByName());
    this.readout = h("p", { class: "pair-readout", "aria-live": "polite" });
    this.tables = h("div", { class: "array-tables" });
    this.choices = h("div", { class: "axis-choices" });
    this.order = h("div", { class: "axis-choices" });
    const refs = this.refs();
    const { at } = app.state.get();
    const here = refs.filter(({ ref }) => exists({ doc: this.doc, at }, ref));
    this.later = refs.filter((each) => !here.includes(each));
    this.maps = here.map(({ ref, title }) => this.figureOf(ref, title));
    this.element = h(
      "section",
      { class: `array-row is-${role}`, "data-value-id": value.id, "aria-label": t(`component.${role}`, { name }) },
      this.heading(),
      this.choices,
      h(
        "div",
        { class: "array-maps" },
        this.maps.map((map) => map.figure),
        this.later.map((each) => this.emptyFigure(each)),
      ),
      this.readout,
      this.foot(),
    );
    this.drawChoices();
    this.say(null);
  }

  // The value, its gradient and, if several ops use the value, what this op sends back.
  refs() {
    const { store } = this.app;
    const name = symbolText(`d${this.name}`);
    const gradient = gradientRef(this.value.id);
    const list = [{ ref: this.value.id, title: t("pair.value") }];
    if (store.info(gradient)) list.push({ ref: gradient, title: t("pair.gradient", { name }) });
    const part = this.op && this.role !== "output" ? contributionRef(this.value.id, this.op.id, this.name) : null;
    if (!part || !store.info(part)) return list;
    const count = contributors(this.doc, this.value).length;
    list[1].title = t("pair.all", { n: count });
    list.push({ ref: part, title: t("pair.part", { name }) });
    return list;
  }

  figureOf(ref, title) {
    const { app } = this;
    const map = heatmap({
      app,
      ref,
      title: `${this.name}, ${title}`,
      view: this.view,
      onPoint: (index) => this.point(index),
      onChoose: (index, byKey) => this.choose(ref, index, byKey),
      onDrawn: () => this.say(null),
      onWindow: (corner) => this.maps.forEach((other) => other.map !== map && other.map.showWindow(corner)),
    });
    const largest = map.noise ? formatNumber(largestIn(map.info), 2) : null;
    const bar = map.noise
      ? h("span", { class: "color-bar note" }, t("bar.noise", { largest }))
      : colorBar(map.info, map.kind);
    const save = saveButton(`${this.value.title}, ${title}`, () => map.cells, () => [bar]);
    const figure = h(
      "figure",
      { class: `array-map is-${map.kind}` },
      h("figcaption", {}, h("span", { class: "figure-title" }, title), zeroCount(map.info, map.kind), bar, save),
      map.element,
    );
    return { ref, map, figure };
  }

  emptyFigure({ ref, title }) {
    return h(
      "figure",
      { class: `array-map is-later is-${isGradient(ref) ? "gradient" : "value"}`, "data-later": ref },
      h("figcaption", {}, h("span", { class: "figure-title" }, title)),
      notYet(this.app, ref),
    );
  }

  heading() {
    const { value, doc, axes, shape } = this;
    const words = shape.length
      ? `${shape.join(" × ")} (${axes.map(axisName).join(", ")})`
      : t("pair.scalar");
    const letter = symbolText(this.name);
    return h(
      "h4",
      {},
      h("span", { class: "array-name mono" }, this.name),
      " ",
      letter !== this.name && [h("span", { class: "array-letter" }, letter), " "],
      h("span", { class: "array-shape" }, words),
      " ",
      h("span", { class: "array-title" }, value.title),
      this.agreement(doc),
    );
  }

  // How well this array's gradient agrees with finite differences.
  agreement(doc) {
    const error = doc.proof && doc.proof.errors ? doc.proof.errors[this.value.id] : undefined;
    if (error === undefined || error === null) return null;
    if (!exists(this.app.state.get(), gradientRef(this.value.id))) return null;
    const right = agrees(error);
    return h(
      "span",
      { class: right ? "agreement" : "agreement is-wrong", title: t("pair.agreement.title") },
      t(right ? "pair.agreement" : "pair.disagreement", { error: formatNumber(error, 2) }),
    );
  }

  foot() {
    const toggle = button(t("pair.table"), () => this.toggleTables(toggle), {
      class: "quiet small",
      "aria-expanded": "false",
    });
    return h("div", { class: "array-foot" }, toggle, this.order, this.tables);
  }

  toggleTables(toggle) {
    const open = toggle.getAttribute("aria-expanded") === "true";
    toggle.setAttribute("aria-expanded", String(!open));
    toggle.textContent = t(open ? "pair.table" : "pair.table.close");
    this.drawTables();
  }

  drawTables() {
    const open = this.element.querySelector(".array-foot [aria-expanded]").getAttribute("aria-expanded") === "true";
    const parts = open
      ? this.maps
          .filter(({ map }) => map.read)
          .map(({ map, figure }) =>
            h(
              "div",
              {
                class: "table-scroll",
                tabindex: "0",
                role: "group",
                "aria-label": figure.querySelector(".figure-title").textContent,
              },
              h("p", { class: "note" }, figure.querySelector(".figure-title").textContent),
              map.table(),
            ),
          )
      : [];
    replace(this.tables, parts);
  }

  // Which axes run along rows and columns, and which entry of the others is shown.
  drawChoices() {
    const options = {
      axes: this.axes,
      shape: this.shape,
      view: this.view,
      doc: this.doc,
      onView: (view) => this.show(view),
      onHold: (axis, i) => (this.onHold ? this.onHold(this.axes[axis].name, i) : this.hold(this.axes[axis].name, i)),
    };
    replace(this.choices, entryChoices(options));
    replace(this.order, orderChoice(options));
  }

  heldByName() {
    const fixed = {};
    this.axes.forEach((axis, i) => {
      const wanted = this.held ? this.held[axis.name] : undefined;
      if (wanted !== undefined) fixed[i] = Math.min(wanted, this.shape[i] - 1);
    });
    return fixed;
  }

  hold(name, i) {
    const fixed = { ...this.view.fixed };
    this.axes.forEach((axis, position) => {
      if (axis.name === name) fixed[position] = Math.min(i, this.shape[position] - 1);
    });
    this.show({ ...this.view, fixed });
  }

  async show(view) {
    this.view = view;
    this.drawChoices();
    await Promise.all(this.maps.map(({ map }) => map.show(view)));
    this.drawTables();
  }

  point(index) {
    this.maps.forEach(({ map }) => map.point(index));
    this.say(index);
  }

  // The numbers of the cell under the pointer or the focus; the chosen cell's otherwise.
  say(index) {
    const at = index || this.chosen;
    if (!at) {
      replace(this.readout, this.hint && h("span", { class: "note" }, t("pair.hint")));
      return;
    }
    const place = indexText(this.doc, this.value.id, this.shape, at);
    const numbers = this.maps.map(({ ref, map, figure }) => this.numberOf(ref, map, figure, at)).filter(Boolean);
    replace(
      this.readout,
      h("span", { class: "mono" }, `${this.name}[${at.join(", ")}]`),
      place ? ` ${place}` : "",
      numbers.flatMap((number) => ["\u2003", number]),          // a wide space, at which the line may end
    );
  }

  numberOf(ref, map, figure, at) {
    const number = map.numberAt(at);
    if (number === null) return null;
    return h(
      "span",
      {
        class: `readout-number is-${map.kind}`,
        "data-ref": ref,
        "data-cell": at.join(","),
        "data-value": String(number),
      },
      h("span", { class: "readout-name" }, figure.querySelector(".figure-title").textContent),
      " ",
      h("b", { class: "number", title: fullNumber(Number(number)) }, formatNumber(Number(number), 4)),
    );
  }

  choose(ref, index, byKey) {
    this.app.state.update({ ref, index });
    if (byKey) document.getElementById("number-area").focus();
  }

  // Marks the chosen cell if it lies in one of this row's arrays, in the slice that contains it.
  mark(ref, index) {
    const mine = this.maps.find((map) => map.ref === ref);
    this.chosen = mine && index && index.length === this.shape.length ? index : null;
    if (this.chosen) this.showEntry(index);
    this.maps.forEach(({ ref: own, map, figure }) => {
      map.mark(own === ref ? this.chosen : null);
      figure.classList.toggle("has-chosen", own === ref && Boolean(this.chosen));
    });
    this.say(null);
  }

  // The slice in which an entry lies. The other arrays of the panel follow: to the same head, to the same batch row.
  showEntry(index) {
    const view = viewShowing(this.view, this.shape, index);
    heldAxes(view, this.shape)
      .filter((axis) => (this.view.fixed[axis] || 0) !== index[axis])
      .forEach((axis) => {
        if (this.onHold) this.onHold(this.axes[axis].name, index[axis]);
        else this.hold(this.axes[axis].name, index[axis]);
      });
  }

  light() {
    this.maps.forEach(({ ref, map }) => map.light(litIn(ref)));
  }
}

// Weights and gradients of every array as small pictures.

import { h, replace } from "explorer/dom";
import { matrixCanvas, paintScale, paintSigned } from "explorer/film_paint";
import { sharedAxis, sparkline } from "explorer/film_sparkline";
import { formatNumber } from "explorer/format";
import { t } from "explorer/strings";

const KINDS = [["weights", "value", "--forward"], ["gradients", "gradient root", "--backward"]];
const SIZE = { width: 92, height: 22 };

export function start(root, film) {
  const { parameters, run } = film.doc;
  const axes = Object.fromEntries(KINDS.map(([kind]) => [kind, sharedAxis(film.norms[kind])]));
  const normsOf = (kind, i) => film.frames.map((_, frame) => film.norms[kind][frame * parameters.length + i]);
  const cards = parameters.map((parameter, i) => {
    const card = { group: parameter.group, visible: true, pictures: [], lines: [] };
    const figures = KINDS.map(([kind, scale, color]) => {
      const array = film.arrays[i][kind];
      const picture = { ...matrixCanvas(array.rows, array.columns, { class: "picture", role: "img" }), array, scale, kind, parameter };
      card.pictures.push(picture);
      const line = sparkline(normsOf(kind, i), axes[kind], color);
      card.lines.push(line);
      const limit = h("span", { class: "note number" }, t("arrays.limit", { limit: formatNumber(array.limit, 2) }));
      return h("figure", { "data-kind": kind }, picture.canvas, h("figcaption", {}, line.number, limit), line.canvas);
    });
    card.element = h("li", { class: "card", "data-name": parameter.name }, h("h4", {}, parameter.title),
      h("span", { class: "note number" }, parameter.shape.join(" × ")), h("div", { class: "pair" }, figures));
    return card;
  });
  const legends = KINDS.map(([kind, scale]) => ({ scale, kind, bar: matrixCanvas(1, 96, { class: "scale", "aria-hidden": "true" }) }));
  const before = h("p", { class: "note before" }, t("arrays.before"));
  replace(root, h("h2", {}, t("arrays.title")),
    h("div", { class: "legends" }, legends.map(({ kind, bar }) => h("div", { class: "legend" }, h("span", {}, t(`arrays.${kind}`)),
      h("span", { class: "number" }, "−"), bar.canvas, h("span", { class: "number" }, "+")))),
    h("p", { class: "note" }, [t("arrays.note"), t("arrays.root"), t("arrays.curves"), run.clip && t("arrays.clipped", { clip: run.clip })].filter(Boolean).join(" ")),
    before, groupsOf(cards).map(({ group, elements }) => [group && h("h3", {}, group), h("ul", { class: "cards" }, elements)]));

  let shown = 0;
  function draw(frame) {
    shown = frame;
    before.classList.toggle("over", film.frames[frame].loss !== null);
    const isPlaying = document.body.hasAttribute("data-playing");
    for (const card of cards) {
      if (!isPlaying || card.visible) drawCard(card, frame);
    }
    if (!isPlaying) describe(frame);
  }

  function drawCard({ pictures, lines }, frame) {
    for (const picture of pictures) paintSigned(picture, picture.array, frame, picture.scale);
    for (const line of lines) line.draw(frame);
  }

  function describe(frame) {
    for (const { canvas, array, kind, parameter } of cards.flatMap((card) => card.pictures)) {
      const name = [parameter.group, parameter.title].filter(Boolean).join(", ");
      canvas.setAttribute("aria-label", t("arrays.describe", { kind: t(`arrays.${kind}`), name, step: film.frames[frame].step,
        largest: formatNumber(array.scales[frame], 2) }));
    }
  }

  function redraw() {
    for (const { bar, scale } of legends) paintScale(bar, scale);
    for (const line of cards.flatMap((card) => card.lines)) line.redraw(SIZE);
    draw(shown);
  }

  // While the film plays, only the cards in the window are drawn; when it pauses, all are.
  const cardOf = new Map(cards.map((card) => [card.element, card]));
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) cardOf.get(target).visible = isIntersecting;
  });
  for (const { element } of cards) observer.observe(element);
  return { draw, redraw };
}

function groupsOf(cards) {
  const groups = [];
  for (const { group, element } of cards) {
    if (!groups.length || groups[groups.length - 1].group !== group) groups.push({ group, elements: [] });
    groups[groups.length - 1].elements.push(element);
  }
  return groups;
}

// Saves any picture of the page as an SVG file that looks the same elsewhere: styles are written into the elements,
// and canvases become images inside the file. It works from file:// because the file is made in the browser.

import { h } from "explorer/dom";
import { t } from "explorer/strings";

const SVG = "http://www.w3.org/2000/svg";
const INHERITED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "font-family", "font-size", "font-style", "font-weight", "text-anchor", "image-rendering",
  "visibility", "writing-mode", "paint-order",
];
const OWN = { opacity: "1", display: null, "dominant-baseline": "auto", "marker-end": "none", "marker-start": "none" };

const MARGIN = 1;                             // around the picture, in rem like the sizes of its heading

/**
 * A button that saves what `picture()` returns (an SVG, a canvas, or any element) as NAME.svg, below its name as a heading
 * and above the color scales that `scales()` returns.
 */
export function saveButton(name, picture, scales = () => []) {
  const label = t("export.button", { name });
  return h("button", { type: "button", class: "export quiet", title: label, "aria-label": label,
    onclick: () => {
      const title = typeof name === "function" ? name() : name;
      download(title, svgText(picture(), title, scales()));
    } }, t("export.short"));
}

/** The text of a self-contained SVG file that shows the element as it looks now, with its title and its color scales. */
function svgText(element, title, scales = []) {
  const parts = [element, ...scales.filter(Boolean)].map((part) => (isPicture(part) ? copyOfSvg(part) : drawnElement(part)));
  const style = getComputedStyle(document.body);
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("xmlns", SVG);
  svg.setAttribute("font-family", style.fontFamily);
  add(svg, "title", {}).textContent = title;
  const background = add(svg, "rect", { x: 0, y: 0, fill: backgroundOf(element) });
  const heading = add(svg, "text", { x: MARGIN * rem, y: (MARGIN + 0.8) * rem, fill: style.color, "font-size": rem, "font-weight": 650 });
  heading.textContent = title;
  let width = textWidth(title, `650 ${rem}px ${style.fontFamily}`);
  let y = (MARGIN + 1.6) * rem;
  for (const part of parts) {
    part.setAttribute("x", MARGIN * rem);
    part.setAttribute("y", y);
    svg.append(part);
    width = Math.max(width, Number(part.getAttribute("width")));
    y += Number(part.getAttribute("height")) + rem / 2;
  }
  const size = { width: Math.ceil(width + 2 * MARGIN * rem), height: Math.ceil(y + (MARGIN - 0.5) * rem) };
  Object.entries(size).forEach(([key, value]) => {
    svg.setAttribute(key, value);
    background.setAttribute(key, value);
  });
  svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}\n`;
}

function textWidth(text, font) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = font;
  return context.measureText(text).width;
}

function isPicture(element) {
  return element instanceof SVGSVGElement;
}

/** Copies an SVG and writes into each element the styles that the page's style sheet gives it. */
function copyOfSvg(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    const around = i > 0 ? getComputedStyle(originals[i].parentElement) : null;
    for (const property of INHERITED) {
      const value = style.getPropertyValue(property);
      if (value !== around?.getPropertyValue(property)) element.setAttribute(property, value);
      else element.removeAttribute(property);           // the file stays small
    }
    for (const [property, usual] of Object.entries(OWN)) {
      const value = style.getPropertyValue(property);
      if (property === "display" ? value === "none" : value !== usual) element.setAttribute(property, value);
    }
    [...element.attributes].forEach(({ name }) => {
      if (/^(class|style|tabindex|role|data-.*|aria-.*)$/.test(name)) element.removeAttribute(name);
    });
  });
  const box = svg.getBoundingClientRect();
  copy.setAttribute("width", svg.width.baseVal.value || box.width);
  copy.setAttribute("height", svg.height.baseVal.value || box.height);
  return copy;
}

/**
 * Draws an element of the page (for example a heatmap with its labels, or bars) as an SVG: colored boxes, canvases as
 * images, SVGs as they are, and each piece of text as text at the place where it stands.
 */
function drawnElement(root) {
  const frame = root.getBoundingClientRect();
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", Math.ceil(frame.width));
  svg.setAttribute("height", Math.ceil(frame.height));
  svg.setAttribute("viewBox", `0 0 ${Math.ceil(frame.width)} ${Math.ceil(frame.height)}`);
  drawInto(svg, root, frame);
  return svg;
}

function drawInto(svg, element, frame) {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || box.width < 1 || box.height < 1) return;
  if (element.matches(".export, select, input, .visually-hidden")) return;
  const place = { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
  if (element instanceof HTMLCanvasElement) {
    add(svg, "image", { ...place, href: element.toDataURL("image/png"), "image-rendering": "pixelated" });
    return;
  }
  if (isPicture(element)) {
    const copy = copyOfSvg(element);
    Object.entries(place).forEach(([key, value]) => copy.setAttribute(key, value));
    svg.append(copy);
    return;
  }
  const borders = parseFloat(style.borderTopWidth) > 0 && parseFloat(style.borderLeftWidth) > 0;
  if (style.backgroundColor !== "rgba(0, 0, 0, 0)" || borders) {
    add(svg, "rect", { ...place, fill: style.backgroundColor, stroke: borders ? style.borderTopColor : "none" });
  }
  element.childNodes.forEach((child) => {
    if (child.nodeType === Node.TEXT_NODE) drawText(svg, child, style, frame);
    if (child.nodeType === Node.ELEMENT_NODE) drawInto(svg, child, frame);
  });
}

/** Writes a text node line by line; a range gives the place of each line. */
function drawText(svg, node, style, frame) {
  const range = document.createRange();
  const lines = [];
  for (let i = 0; i < node.length; i += 1) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const box = range.getBoundingClientRect();
    const line = lines[lines.length - 1];
    if (box.width === 0) continue;
    if (line && Math.abs(line.box.top - box.top) < 2) line.text += node.data[i];
    else lines.push({ text: node.data[i], box });
  }
  for (const { text, box } of lines) {
    const element = add(svg, "text", { x: box.left - frame.left, y: box.bottom - frame.top - box.height * 0.24,
      fill: style.color, "font-size": style.fontSize, "font-weight": style.fontWeight,
      "font-style": style.fontStyle, "font-family": style.fontFamily });
    element.textContent = text;
  }
}

function add(svg, tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  svg.append(element);
  return element;
}

/** The first background color at or above the element that is not transparent. */
function backgroundOf(element) {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (color !== "rgba(0, 0, 0, 0)") return color;
  }
  return "white";
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const file = `${name.replace(/[^\p{L}\p{N}.-]+/gu, "-").replace(/^-|-$/g, "")}.svg`;
  const link = h("a", { href: address, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Every text of the page. A text with a count has one form per plural category of its language.
//   t("timeline.forward", {n: 14, of: 38}) -> "forward 14 of 38"
// To translate the page, add a table beside `en`; a key that is missing there falls back to English.

const en = {
  "skip.name": "Skip links",
  "skip.map": "Skip to the map",
  "skip.panel": "Skip to the component",
  "skip.number": "Skip to the number",
  "skip.timeline": "Skip to the time line",

  "header.title": "One training step",
  "header.text": "Text",
  "header.target": "Target",
  "header.compute": "Compute",
  "header.computing": "Computing …",
  "header.model": "model",
  "header.parameters": { one: "{count} parameter", other: "{count} parameters" },
  "header.loss": "loss",
  "header.theme": "Light or dark",
  "header.theme.auto": "Automatic",
  "header.theme.light": "Light",
  "header.theme.dark": "Dark",
  "header.large": "Large type",
  "header.tour": "Tour",
  "header.saved": "This is a saved page. To change the text, start the server with `numpy-transformer explore`.",

  "status.close": "Close this message",
  "status.broken": "This part of the page could not be drawn: {reason}",
  "status.no_document": "The training step could not be loaded: {reason}",

  "areas.name": "Parts of the page",
  "areas.map": "Map",
  "areas.panel": "Component",
  "areas.number": "Number",

  "panel.name": "Views",
  "panel.component": "Component",
  "panel.attention": "Attention",
  "panel.predictions": "Predictions",
  "panel.hands-on": "Hands on",
  "panel.empty": "Choose a box on the map.",

  "trail.name": "Where you have been",
  "trail.back": "Back",

  "number.name": "One number",
  "number.empty": "Choose a cell of an array to see where its number comes from.",

  "map.name": "Map of the training step",

  "timeline.name": "Time line",

  "store.unknown": "This document has no array named {ref}.",
  "store.left_out": "This saved page leaves out the array {ref}; start the server to see it.",
  "store.needs_server": "A saved page cannot compute anything new; start the server with `numpy-transformer explore`.",
  "store.ended": "The server has ended. This page keeps showing what it has already received.",
  "store.unreadable": "The server sent an answer that this page cannot read (status {status}).",
};

const languages = { en };
const language = languages[document.documentElement.lang] ?? en;
const plural = new Intl.PluralRules(document.documentElement.lang || "en");

export function t(key, numbers = {}) {
  let text = language[key] ?? en[key];
  if (text === undefined) {
    return key;
  }
  if (typeof text === "object") {
    text = text[plural.select(numbers.n ?? 0)] ?? text.other;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in numbers ? String(numbers[name]) : whole));
}

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

  "formula.if": "if",
  "formula.otherwise": "otherwise",

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

  "attention.none": "This step has no attention.",
  "attention.layer": "Layer",
  "attention.lines_of": "Lines of",
  "attention.all_heads": "all heads",
  "attention.head": "head {n}",
  "attention.head_title": "Head {n}",
  "attention.show": "Show",
  "attention.batch": "Text",
  "attention.text": "text {n}",
  "attention.part": "Tokens",
  "attention.window": "{first} to {last}",
  "attention.array.weights": "attention weights (forward)",
  "attention.array.dweights": "gradient of the weights (backward)",
  "attention.array.dscores": "gradient of the scores (backward)",
  "attention.short.weights": "weights",
  "attention.short.dweights": "dL/dweights",
  "attention.short.dscores": "dL/dscores",
  "attention.queries": "queries",
  "attention.keys": "keys",
  "attention.lines_name": "Attention, {layer}",
  "attention.lines_caption.weights": "Forward: each query on the left collects values from the keys on the right. A thicker line is a larger weight.",
  "attention.lines_caption.dweights": "Backward: green lines are weights that would raise the loss if they grew, purple ones would lower it.",
  "attention.lines_caption.dscores": "Backward: green lines are scores that would raise the loss if they grew, purple ones would lower it. Each query's lines add up to 0.",
  "attention.hint": "Point at a token, or move to it with the arrow keys, to see what it collects and which gradient comes back.",
  "attention.of_head": "Head {head}: {text}",
  "attention.repeated": "{token} (position {position})",
  "attention.query.forward": "{token} attends to {list}.",
  "attention.query.masked": "The mask hides {list}.",
  "attention.row_sum": "The gradients of a query's scores add up to 0, because its weights always add up to 1.",
  "attention.single": "Only {key} is visible, so its weight is 1 whatever the score is: the gradient of the score is exactly 0, and so is the query's.",
  "attention.key.forward": "As a key, {token} gets attention from {list}.",
  "attention.key.masked": "The mask hides it from {list}.",
  "attention.backward": "Gradients of these scores: {list}.",
  "attention.more": "and {n} more",
  "attention.nothing": "nothing",
  "attention.heads": "All heads",
  "attention.heads_of": "All heads, {layer}",
  "attention.cell_hint": "Point at a cell to read its number; choose it to see where the number comes from.",
  "attention.cell.weights": "Head {head}: {query} attends to {key} with weight {number}.",
  "attention.cell.dweights": "Head {head}, {query} → {key}: dL/dweight = {number}.",
  "attention.cell.dscores": "Head {head}, {query} → {key}: dL/dscore = {number}.",
  "attention.cell.masked": "Head {head}: the mask hides {key} from {query}.",
  "predictions.none": "This step has no predictions to show: its output is not a choice among labels.",
  "predictions.losses": "Loss of each target",
  "predictions.mean": { one: "The loss is that of the one target: {loss}.", other: "The loss is the mean of these {n} numbers: {loss}." },
  "predictions.mean_of_texts": "The loss is the mean over the targets of all texts: {loss}.",
  "predictions.title.next token": "Next token after “{token}”",
  "predictions.title.tag": "Tag of “{token}”",
  "predictions.title.masked word": "Word at “{token}”",
  "predictions.title.class": "Class of the text",
  "predictions.temperature": "Temperature",
  "predictions.temperature_note": "The training step uses temperature 1; the losses and gradients on this page do, too.",
  "predictions.label.vocabulary": "token",
  "predictions.label.classes": "class",
  "predictions.logit": "logit z",
  "predictions.probability": "probability p",
  "predictions.dlogit": "dL/dz",
  "predictions.target": "target",
  "predictions.tiny": "< 0.01 %",
  "predictions.rest": { one: "and {n} other label", other: "and {n} others" },
  "predictions.spelled": "loss = −log p({target}) = −log {p} = {loss}",
  "predictions.smoothed": "p({target}) = {p}; the loss of this target is {loss}, which is not −log p alone (label smoothing or class weights).",
  "predictions.gradient": "Backward starts here: dL/dz = (p − y) / N. For {target}, y is 1: ({p} − 1) / {n} = {gradient}. For every other label, y is 0.",
  "predictions.not_counted": "This position has no target, so it adds nothing to the loss.",
  "predictions.output": "the model's output",
  "predictions.lens": "What the model would already say after each block",
  "predictions.lens_note": "The final norm and the output layer are applied to the residual stream as it leaves each block. The darker the cell, the more certain the answer; an underlined token is the target.",

  "heatmap.role": "heatmap",

  "export.button": "Save as an SVG file: {name}",
  "export.short": "SVG",

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

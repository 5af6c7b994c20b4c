// Two functions that make elements, so that the other modules read like the markup that they produce.
// Attributes: a function becomes a listener ("onclick"), `style` is an object, true and false switch an attribute on and off.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") {
      element.addEventListener(name.replace(/^on/, ""), value);
    } else if (name === "style") {
      for (const [property, setting] of Object.entries(value)) {
        element.style.setProperty(property, setting);     // a style attribute would break the content security policy
      }
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  append(element, children);
  return element;
}

// Texts become text nodes (never markup: token names come from outside), arrays are flattened, null and false are left out.
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) {
      continue;
    }
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// A button with a visible text; `label` is its name for screen readers where the text is a symbol.
export function button(text, onclick, { label = null, ...attributes } = {}) {
  return h("button", { type: "button", onclick, "aria-label": label, title: label, ...attributes }, text);
}

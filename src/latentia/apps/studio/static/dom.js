// Elements without markup: text is always text.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return node;
}

/** An element of HTML. */
export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** An element of SVG. */
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Set a custom property; styles in attributes are forbidden here. */
export function withProperty(node, name, value) {
  node.style.setProperty(name, value);
  return node;
}

/** A choice among a few words, as radio buttons that look like one control. */
export function segmented(legend, name, options, chosen, onchange) {
  const parts = options.map(([value, words]) =>
    el("label", {}, el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }),
      el("span", {}, words)));
  return el("fieldset", { class: "segmented" }, el("legend", {}, legend), el("div", {}, parts));
}

export function select(label, options, chosen, onchange, attributes = {}) {
  const node = el("select", { "aria-label": label, ...attributes, onchange: () => onchange(node.value) },
    options.map(([value, words]) => el("option", { value, selected: value === chosen }, words)));
  return node;
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
/** A probability: never 100 % or 0 % unless it is. */
export function chance(share) {
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share < 0.0005 && share > 0) return "< 0.1 %";
  return percent(share, share > 0.99 || share < 0.01 ? 1 : 0);
}

export const count = (n) => n.toLocaleString("en-US");
export const plural = (n, word, words = `${word}s`) => `${count(n)} ${n === 1 ? word : words}`;

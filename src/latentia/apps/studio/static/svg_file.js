// A drawing of the page as a file of its own: it keeps the looks that the page's styles gave it.

const LOOKS = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-weight",
  "text-anchor", "paint-order", "stroke-linejoin", "visibility",
];

export function svgFile(drawing) {
  const copy = drawing.cloneNode(true);
  const from = [drawing, ...drawing.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, k) => {
    const looks = getComputedStyle(node);
    for (const name of LOOKS) {
      const value = looks.getPropertyValue(name);
      if (value) to[k].setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "role"]) to[k].removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, sans-serif");
  const box = drawing.viewBox.baseVal;
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", box.width);
  paper.setAttribute("height", box.height);
  paper.setAttribute("fill", getComputedStyle(document.body).getPropertyValue("--card"));
  copy.prepend(paper);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

/** Let the browser save something. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

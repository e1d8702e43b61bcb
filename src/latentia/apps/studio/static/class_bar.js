// The classes of a column and how many rows have each.

import { count, el, percent, withProperty } from "./dom.js";

export function classBar(column, nRows) {
  if (!column.levels.length) {
    return el("p", { class: "hint" }, column.values
      ? `${count(column.values)} different values are too many for classes. Choose a column with a few values.`
      : "No row has a class here. Choose another column, or write the class of some rows into this one.");
  }
  const known = Math.round(nRows * (1 - column.missing));
  const order = [...column.levels].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })); // as on the map
  const parts = order.map(([name, n], k) => [name, n, `c${k % 10}`]);
  const listed = parts.reduce((sum, part) => sum + part[1], 0);
  if (known - listed > 0) parts.push(["others", known - listed, "none"]);
  if (nRows - known > 0) parts.push(["no class", nRows - known, "none faded"]);
  return el("div", { class: "classes" },
    el("div", { class: "stack", "aria-hidden": "true" }, parts.map(([, n, style]) =>
      withProperty(el("span", { class: style }), "--v", n / nRows))),
    el("ul", { class: "legend" }, parts.map(([name, n, style]) =>
      el("li", {}, el("span", { class: `key ${style}` }), name, el("span", { class: "soft" }, `${count(n)} (${percent(n / nRows)})`)))),
    column.values === 1 ? el("p", { class: "hint" }, "There is one class. Add rows of a second one, or choose another column.") : null);
}

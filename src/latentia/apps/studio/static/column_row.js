// A column of the table: its kind, gaps, and a sketch of its values.

import { count, el, percent, select, svg, withProperty } from "./dom.js";

export const KINDS = {
  continuous: "number", count: "count", binary: "yes or no", categorical: "category", ordinal: "ordered", "left out": "leave out",
};

/** A row of the table of columns. */
export function columnRow(column, kind, choose) {
  const options = [...column.allowed, "left out"].map((name) => [name, KINDS[name]]);
  const row = el("tr", { class: kind === "left out" ? "left-out" : "" },
    el("th", { scope: "row" }, column.name),
    el("td", {}, select(`Kind of ${column.name}`, options, kind, (chosen) => {
      row.classList.toggle("left-out", chosen === "left out");
      choose(chosen);
    }), column.reason && kind === "left out" ? el("small", {}, column.reason) : null),
    el("td", {}, withProperty(el("span", { class: "meter" }), "--v", column.missing),
      column.missing ? percent(column.missing, column.missing < 0.01 ? 1 : 0) : "none"),
    el("td", { class: "numbers" }, count(column.values)),
    el("td", {}, sketch(column)));
  return row;
}

function sketch(column) {
  if (column.levels.length && !(column.histogram && column.kind === "continuous")) {
    const shown = column.levels.slice(0, 4).map(([level, n]) => `${level} ${count(n)}`).join(", ");
    return el("span", { class: "levels" }, shown + (column.values > 4 ? ` and ${column.values - 4} more` : ""));
  }
  if (!column.histogram) return el("span", { class: "soft" }, column.values === 1 ? "one value" : "text");
  const { counts, low, high } = column.histogram;
  const top = Math.max(...counts);
  const bars = counts.map((n, k) => svg("rect", { x: 6 * k, width: 5, y: 24 - (24 * n) / top, height: (24 * n) / top }));
  return el("span", { class: "sketch" }, el("small", {}, low),
    svg("svg", { viewBox: `0 0 ${6 * counts.length} 24`, role: "img", "aria-label": `from ${low} to ${high}` }, bars),
    el("small", {}, high));
}

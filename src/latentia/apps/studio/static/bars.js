// Bars in SVG: of probabilities, and of what cells add to or take from log odds.

import { chance, svg } from "./dom.js";
import { fitText, textWidth } from "./fit_text.js";

const WIDTH = 340, ROW = 24;

/** A bar for each class; the most probable ones first if there are many. */
export function probabilityBars(classes, proba, label, style = (k) => `c${k % 10}`) {
  const order = classes.map((_, k) => k);
  if (classes.length > 6) order.sort((a, b) => proba[b] - proba[a]);
  const shown = order.slice(0, 10);
  const said = shown.map((k) => `${classes[k]} ${chance(proba[k])}`).join(", ");
  const name = (k) => fitText(classes[k], 96, 12, 700) + (k === label ? " ●" : "");
  const left = 12 + Math.max(...shown.map((k) => textWidth(name(k), 12, 700))), room = WIDTH - left - 58;
  return svg("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${ROW * shown.length}`, role: "img", "aria-label": `Probabilities: ${said}` },
    shown.map((k, place) => svg("g", { transform: `translate(0 ${place * ROW})` },
      svg("text", { x: left - 8, y: 16, class: `end ${k === label ? "strong" : ""}` }, name(k)),
      svg("rect", { class: "track", x: left, y: 5, width: room, height: 14, rx: 4 }),
      svg("rect", { class: style(k), x: left, y: 5, width: Math.max(1, room * proba[k]), height: 14, rx: 4 }),
      svg("text", { x: WIDTH, y: 16, class: "end" }, chance(proba[k])))));
}

/** The cells that say most about a class, for it to the right, against it to the left. */
export function contributionBars(columns, cells, added, most = 10) {
  const order = added.map((_, k) => k).filter((k) => Math.abs(added[k]) >= 0.005)
    .sort((a, b) => Math.abs(added[b]) - Math.abs(added[a])).slice(0, most);
  const largest = Math.max(1, ...order.map((k) => Math.abs(added[k])));
  const left = 138, middle = left + (WIDTH - left) / 2, half = (WIDTH - left) / 2 - 48;
  const said = order.map((k) => `${columns[k].name} ${signed(added[k])}`).join(", ") || "no cell says anything";
  return svg("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${Math.max(1, order.length) * ROW}`, role: "img", "aria-label": `Log odds added: ${said}` },
    svg("path", { class: "axis", d: `M${middle},0V${Math.max(1, order.length) * ROW}` }),
    order.map((k, place) => {
      const size = (half * Math.abs(added[k])) / largest, forIt = added[k] > 0;
      return svg("g", { transform: `translate(0 ${place * ROW})` },
        svg("text", { x: left - 6, y: 16, class: "end" }, fitText(columns[k].name, left - 8), svg("title", {}, `${columns[k].name} = ${cells[k]}`)),
        svg("rect", { class: forIt ? "more" : "less", x: forIt ? middle : middle - size, y: 5, width: Math.max(1, size), height: 14, rx: 3 }),
        svg("text", { x: forIt ? middle + size + 5 : middle - size - 5, y: 16, class: forIt ? "" : "end" }, signed(added[k])));
    }),
    order.length ? null : svg("text", { x: middle, y: 16, class: "middle" }, "no cell says anything"));
}

const signed = (value) => `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;

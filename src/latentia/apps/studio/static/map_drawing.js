// The drawing of the map: thousands of rows as a few paths, one for each color.

import { el, svg } from "./dom.js";
import { fitText, textWidth } from "./fit_text.js";
import { reach, scale, ticks } from "./scales.js";

// a mark for each class, so that colors are not needed
const MARKS = [
  "m-3,0a3,3 0 1 0 6,0a3,3 0 1 0-6,0", "m-2.7,-2.7h5.4v5.4h-5.4z", "m0,-3.5l3.5,6h-7z", "m0,-3.8l3.8,3.8l-3.8,3.8l-3.8,-3.8z",
  "m0,3.5l3.5,-6h-7z",
];
const SHADES = 10;
const MAX_NAMED = 12; // classes with ellipses and names
const LEFT = 38, RIGHT = 10, TOP = 10, BOTTOM = 36;
const UNSEEN = 760; // width of a map that nobody has looked at
const NEAR = 24; // pixels from which a click finds a row
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class MapDrawing {
  #data; #onselect; #x; #y; #width = 0; #height = 0; #selected = null; #moved = null; #by = "class"; #class = 0;

  constructor(data, onselect) {
    this.#data = data;
    this.#onselect = onselect;
    this.legend = el("div", { class: "map-legend" });
    this.node = svg("svg", {
      class: "map-drawing", tabindex: 0, role: "application",
      "aria-label": `Map of ${data.x.length} rows. Arrow keys go to the next row in that direction.`,
      onpointermove: (event) => this.#hover(event), onpointerleave: () => this.#hoverOff(),
      onclick: (event) => this.#click(event), onkeydown: (event) => this.#key(event),
    });
    new ResizeObserver(() => this.resize()).observe(this.node);
  }

  /** Draw again if the size has changed. */
  resize() {
    const width = Math.round(this.node.getBoundingClientRect().width) || this.#width || UNSEEN;
    if (width === this.#width) return;
    this.#width = width;
    this.#height = Math.round(Math.min(Math.max(0.72 * width, 300), 560));
    this.node.setAttribute("viewBox", `0 0 ${width} ${this.#height}`);
    const { x, y, ellipses } = this.#data;
    const wide = ellipses.filter((e) => e).flatMap((e) => [[e.x, Math.max(e.a, e.b)], [e.y, Math.max(e.a, e.b)]]);
    const spread = (values, part) => values.concat(part.flatMap(([m, s]) => [m - 1.6 * s, m + 1.6 * s]));
    const across = reach(spread(x, wide.filter((_, k) => k % 2 === 0)));
    const up = reach(spread(y, wide.filter((_, k) => k % 2 === 1)));
    this.#x = scale(...across, LEFT, width - RIGHT);
    this.#y = scale(...up, this.#height - BOTTOM, TOP);
    this.#draw(across, up);
  }

  color(by, of) {
    [this.#by, this.#class] = [by, of];
    this.node.dataset.by = by;
    this.#drawMarks();
    this.#drawLegend();
  }

  select(row) {
    this.#selected = row;
    this.#moved = null;
    this.#drawSelected();
  }

  /** The selected row lies elsewhere now; null brings it back. */
  move(place) {
    this.#moved = place;
    this.#drawSelected();
  }

  #draw(across, up) {
    const bottom = this.#height - BOTTOM, right = this.#width - RIGHT;
    const [first, second] = this.#data.axes;
    const few = this.#width < 500 ? 4 : 7;
    const grid = svg("g", { "aria-hidden": "true" },
      ticks(...across, few).map(([value, words]) => [
        svg("path", { class: "grid", d: `M${this.#x(value)},${TOP}V${bottom}` }),
        svg("text", { x: this.#x(value), y: bottom + 15, class: "middle" }, words)]),
      ticks(...up, few).map(([value, words]) => [
        svg("path", { class: "grid", d: `M${LEFT},${this.#y(value)}H${right}` }),
        svg("text", { x: LEFT - 5, y: this.#y(value) + 4, class: "end" }, words)]),
      svg("text", { x: (LEFT + right) / 2, y: this.#height - 5, class: "middle" }, first),
      svg("text", { x: 11, y: (TOP + bottom) / 2, class: "middle", transform: `rotate(-90 11 ${(TOP + bottom) / 2})` }, second));
    this.node.replaceChildren(grid, this.#ellipses(), svg("g", { class: "marks" }), this.#doubted(), this.#names(),
      svg("g", { class: "selected" }), svg("g", { class: "hover" }));
    this.#drawMarks();
    this.#drawSelected();
  }

  get #hasNames() {
    return this.#data.classes.length <= MAX_NAMED;
  }

  #ellipses() {
    const unitX = this.#x(1) - this.#x(0), unitY = this.#y(0) - this.#y(1);
    const drawn = this.#hasNames ? this.#data.ellipses : [];
    return svg("g", { class: "ellipses" }, drawn.flatMap((e, k) => e === null ? [] : [1, 2].map((times) =>
      svg("path", { class: `c${k % 10} ${times === 1 ? "inner" : "outer"}`, d: this.#ellipsePath(e, times, unitX, unitY) }))));
  }

  #ellipsePath(e, times, unitX, unitY) {
    const turn = (e.angle * Math.PI) / 180, points = [];
    for (let k = 0; k < 48; k += 1) {
      const a = times * e.a * Math.cos((k * Math.PI) / 24), b = times * e.b * Math.sin((k * Math.PI) / 24);
      const dx = a * Math.cos(turn) - b * Math.sin(turn), dy = a * Math.sin(turn) + b * Math.cos(turn);
      points.push(`${(this.#x(e.x) + unitX * dx).toFixed(1)},${(this.#y(e.y) - unitY * dy).toFixed(1)}`);
    }
    return `M${points.join("L")}Z`;
  }

  #names() {
    if (!this.#hasNames) return svg("g");
    return svg("g", { class: "names", "aria-hidden": "true" }, this.#data.ellipses.flatMap((e, k) => e === null ? [] : [
      svg("text", { class: `middle c${k % 10}`, x: this.#x(e.x), y: this.#y(e.y) + 4 }, short(this.#data.classes[k]))]));
  }

  #doubted() {
    const ring = "m-6.5,0a6.5,6.5 0 1 0 13,0a6.5,6.5 0 1 0-13,0";
    return svg("path", { class: "doubted-ring", d: this.#data.doubted.map((row) => this.#at(row) + ring).join("") });
  }

  #at(row) {
    return `M${this.#x(this.#data.x[row]).toFixed(1)},${this.#y(this.#data.y[row]).toFixed(1)}`;
  }

  /** Rows by their style: "c2" of a class, "none", "p7" of a probability, "s3" of a surprise. */
  #style(row) {
    const { codes, proba, surprise } = this.#data;
    if (this.#by === "class") return codes[row] < 0 ? "none" : `c${codes[row] % 10}`;
    const share = this.#by === "surprise" ? surprise[row] : proba[row][this.#class];
    return `${this.#by === "surprise" ? "s" : "p"}${Math.min(SHADES - 1, Math.floor(share * SHADES))}`;
  }

  #drawMarks() {
    const layer = this.node.querySelector(".marks");
    if (!layer) return;
    const paths = new Map();
    this.#data.x.forEach((_, row) => {
      const code = this.#data.codes[row];
      const key = this.#style(row);
      const parts = paths.get(key) ?? [];
      parts.push(this.#at(row), code < 0 ? MARKS[0] : MARKS[code % MARKS.length]);
      paths.set(key, parts);
    });
    const crowd = this.#data.x.length > 1500 ? "crowd" : "";
    layer.replaceChildren(...[...paths].sort().map(([style, parts]) => svg("path", { class: `${style} ${crowd}`, d: parts.join("") })));
  }

  #drawLegend() {
    const { classes, codes } = this.#data;
    if (this.#by !== "class") {
      const [low, high] = this.#by === "surprise" ? ["usual", "surprising"] : ["0 %", "100 %"];
      const ramp = Array.from({ length: SHADES }, (_, k) => el("span", { class: `${this.#by === "surprise" ? "s" : "p"}${k}` }));
      this.legend.replaceChildren(el("p", { class: "ramp" }, low, el("span", { class: "shades", "aria-hidden": "true" }, ramp), high));
      return;
    }
    const entries = classes.map((name, k) => [name, `c${k % 10}`, MARKS[k % MARKS.length]]);
    if (codes.includes(-1)) entries.push(["no label", "none", MARKS[0]]);
    this.legend.replaceChildren(el("ul", { class: "legend" }, entries.slice(0, 24).map(([name, style, mark]) => el("li", {},
      svg("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" }, svg("path", { class: style, d: `M6,6${mark}` })), name)),
    this.#data.doubted.length ? el("li", {}, svg("svg", { viewBox: "0 0 16 16", class: "key", "aria-hidden": "true" },
      svg("circle", { class: "doubted-ring", cx: 8, cy: 8, r: 6 })), "doubted") : null));
  }

  #drawSelected() {
    const layer = this.node.querySelector(".selected");
    if (!layer || this.#selected === null) return;
    const from = [this.#x(this.#data.x[this.#selected]), this.#y(this.#data.y[this.#selected])];
    const to = this.#moved ? [this.#x(this.#moved.x), this.#y(this.#moved.y)] : from;
    const far = Math.hypot(to[0] - from[0], to[1] - from[1]) > 3;
    layer.replaceChildren(
      ...(far ? [svg("path", { class: "trail", d: `M${from}L${to}` }), svg("circle", { class: "ghost", cx: from[0], cy: from[1], r: 5 })] : []),
      svg("circle", { class: "halo", cx: to[0], cy: to[1], r: 10 }), svg("circle", { class: "point", cx: to[0], cy: to[1], r: 5.5 }));
  }

  // where the pointer is

  #nearest(event) {
    const box = this.node.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = NEAR ** 2;
    this.#data.x.forEach((value, row) => {
      const distance = (this.#x(value) - px) ** 2 + (this.#y(this.#data.y[row]) - py) ** 2;
      if (distance < least) [best, least] = [row, distance];
    });
    return best;
  }

  #hover(event) {
    const row = this.#nearest(event);
    const layer = this.node.querySelector(".hover");
    if (row === null) return this.#hoverOff();
    const { classes, codes } = this.#data;
    const words = `Row ${row + 1}${codes[row] >= 0 ? ` · ${short(classes[codes[row]])}` : ""}`;
    const [x, y] = [this.#x(this.#data.x[row]), this.#y(this.#data.y[row])];
    const half = textWidth(words, 11, 600) / 2 + 8;
    const middle = Math.min(Math.max(x, LEFT + half), this.#width - RIGHT - half);
    const above = y > TOP + 34 ? y - 16 : y + 26;
    layer.replaceChildren(svg("circle", { cx: x, cy: y, r: 7 }),
      svg("rect", { x: middle - half, y: above - 14, width: 2 * half, height: 20, rx: 5 }),
      svg("text", { x: middle, y: above, class: "middle" }, words));
    return undefined;
  }

  #hoverOff() {
    this.node.querySelector(".hover")?.replaceChildren();
  }

  #click(event) {
    const row = this.#nearest(event);
    if (row !== null) this.#onselect(row);
  }

  /** The next row in a direction: near, and not far off to the side. */
  #key(event) {
    const step = STEPS[event.key];
    if (!step || this.#selected === null) return;
    event.preventDefault();
    const [fx, fy] = [this.#x(this.#data.x[this.#selected]), this.#y(this.#data.y[this.#selected])];
    let best = null, least = Infinity;
    this.#data.x.forEach((value, row) => {
      const [dx, dy] = [this.#x(value) - fx, this.#y(this.#data.y[row]) - fy];
      const along = dx * step[0] + dy * step[1], aside = Math.abs(dx * step[1] + dy * step[0]);
      if (along > 0.01 && along + 2 * aside < least) [best, least] = [row, along + 2 * aside];
    });
    if (best !== null) this.#onselect(best);
  }
}

const short = (text) => fitText(text, 130, 13, 700);

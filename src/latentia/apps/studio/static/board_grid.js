// The squares of the board: what is known in ink, what the model expects in color.

import { svg } from "./dom.js";
import { INK, SIDE } from "./picture.js";

const SIZE = 40;
const UNKNOWN = 0.1; // the tint of a square of which nothing is known
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** A small picture; `known` says which squares are ink. */
export function thumbnail(pixels, isKnown, label) {
  return svg("svg", { class: "board-picture", viewBox: `0 0 ${SIDE * SIZE} ${SIDE * SIZE}`, role: "img", "aria-label": label },
    svg("rect", { class: "paper", width: SIDE * SIZE, height: SIDE * SIZE }),
    pixels.map((ink, place) => svg("rect", {
      class: isKnown(place) ? "ink" : "guess", x: (place % SIDE) * SIZE, y: Math.floor(place / SIDE) * SIZE,
      width: SIZE + 0.5, height: SIZE + 0.5, "fill-opacity": (ink / INK).toFixed(2),
    })));
}

export class BoardGrid {
  #picture; #onchange; #squares = []; #cursor = 27; #tool = "draw"; #last = null; #told;

  constructor(picture, { onchange, told }) {
    this.#picture = picture;
    this.#onchange = onchange;
    this.#told = told;
    this.node = svg("svg", {
      class: "board-grid", viewBox: `0 0 ${SIDE * SIZE} ${SIDE * SIZE}`, tabindex: 0, role: "application",
      "aria-label": "Board of 8 by 8 squares. Arrow keys move, space draws or erases a square, H hides it.",
      onpointerdown: (event) => this.#down(event), onpointermove: (event) => this.#move(event),
      onpointerup: () => { this.#last = null; }, onpointercancel: () => { this.#last = null; },
      onkeydown: (event) => this.#key(event),
    });
    this.#build();
  }

  set tool(name) {
    this.#tool = name;
  }

  #build() {
    const parts = [svg("rect", { class: "paper", width: SIDE * SIZE, height: SIDE * SIZE })];
    for (let place = 0; place < SIDE * SIDE; place += 1) {
      const box = { x: (place % SIDE) * SIZE, y: Math.floor(place / SIDE) * SIZE, width: SIZE, height: SIZE };
      const square = svg("rect", box);
      this.#squares.push(square);
      parts.push(square);
    }
    let lines = "";
    for (let k = 1; k < SIDE; k += 1) lines += `M${k * SIZE},0V${SIDE * SIZE}M0,${k * SIZE}H${SIDE * SIZE}`;
    this.node.replaceChildren(...parts, svg("path", { class: "lines", d: lines }), svg("rect", { class: "cursor", width: SIZE, height: SIZE }));
    this.#showCursor();
  }

  /** Show the picture and what is expected where it is unknown. */
  draw(expected) {
    this.#squares.forEach((square, place) => {
      const known = this.#picture.isKnown(place);
      const ink = known ? this.#picture.ink(place) : expected?.[place] ?? 0;
      square.setAttribute("class", known ? "ink" : "guess");
      square.setAttribute("fill-opacity", (known ? ink / INK : UNKNOWN + (1 - UNKNOWN) * (ink / INK)).toFixed(3));
    });
  }

  #point(event) {
    const box = this.node.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  #down(event) {
    event.preventDefault();
    this.node.focus({ preventScroll: true });
    this.node.setPointerCapture(event.pointerId);
    this.#last = this.#point(event);
    this.#picture.touch(this.#tool, ...this.#last);
    this.#onchange();
  }

  #move(event) {
    if (this.#last === null) return;
    const to = this.#point(event), [fx, fy] = this.#last;
    const steps = Math.ceil(Math.hypot(to[0] - fx, to[1] - fy) * 8) || 1; // a line without holes
    for (let k = 1; k <= steps; k += 1) {
      this.#picture.touch(this.#tool, fx + ((to[0] - fx) * k) / steps, fy + ((to[1] - fy) * k) / steps);
    }
    this.#last = to;
    this.#onchange();
  }

  #key(event) {
    const step = STEPS[event.key], row = Math.floor(this.#cursor / SIDE), column = this.#cursor % SIDE;
    if (step) {
      const [r, c] = [row + step[0], column + step[1]];
      if (r >= 0 && c >= 0 && r < SIDE && c < SIDE) this.#cursor = r * SIDE + c;
    } else if (event.key === " ") {
      this.#picture.toggle(this.#cursor);
    } else if (event.key.toLowerCase() === "h" && !event.ctrlKey && !event.metaKey) {
      this.#picture.hidden[this.#cursor] ^= 1;
    } else return;
    event.preventDefault();
    this.#showCursor();
    this.#told(this.#words());
    if (!step) this.#onchange();
  }

  #words() {
    const place = this.#cursor, picture = this.#picture;
    const what = picture.isKnown(place) ? `ink ${Math.round((100 * picture.ink(place)) / INK)} %` : "unknown";
    return `row ${Math.floor(place / SIDE) + 1}, column ${(place % SIDE) + 1}: ${what}`;
  }

  #showCursor() {
    const cursor = this.node.querySelector(".cursor");
    cursor.setAttribute("x", (this.#cursor % SIDE) * SIZE);
    cursor.setAttribute("y", Math.floor(this.#cursor / SIDE) * SIZE);
  }
}

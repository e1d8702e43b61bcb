// The drawing board: draw a digit or hide part of one, and see it recognized and completed.

import { get, Latest, post } from "./api.js";
import { BoardGrid, thumbnail } from "./board_grid.js";
import { probabilityBars } from "./bars.js";
import { chance, el, segmented } from "./dom.js";
import { Picture, SIDE } from "./picture.js";
import { showProblem, tell, trying } from "./say.js";

const TOOLS = [["draw", "Draw"], ["erase", "Erase"], ["hide", "Hide"]];
const HALVES = [
  ["Top", (row) => row < SIDE / 2], ["Bottom", (row) => row >= SIDE / 2], ["Left", (_, column) => column < SIDE / 2],
  ["Right", (_, column) => column >= SIDE / 2], ["Every other square", (row, column) => (row + column) % 2 === 0],
];

export class BoardPage {
  #node; #facts = null; #picture = new Picture(); #grid; #answers; #example = 0; #parts = {}; #blank; #hasAnswer = false;

  constructor(node) {
    this.#node = node;
    this.#grid = new BoardGrid(this.#picture, { onchange: () => this.#changed(), told: tell });
    this.#answers = new Latest((...what) => this.#ask(...what));
  }

  /** The model of digits is trained when the page is first seen. */
  async show() {
    if (this.#facts) return;
    this.#node.replaceChildren(el("div", { class: "empty" }, el("h2", {}, "Learning the digits …"),
      el("p", {}, "A model of handwritten digits is trained, once, from 1,757 pictures that come with scikit-learn.")));
    const facts = await trying(() => get("/api/board"));
    if (facts === null) return;
    this.#facts = facts;
    this.#build();
    this.#load(3);
    this.#picture.hide(HALVES[1][1]);
    this.#changed();
  }

  pictures() {
    if (!this.#hasAnswer) return [];
    return [
      { name: "board.svg", words: "The board, completed", drawing: this.#grid.node },
      { name: "board-classes.svg", words: "What the board could be", drawing: this.#parts.classes.querySelector("svg") },
    ];
  }

  #build() {
    for (const name of ["verdict", "classes", "given"]) this.#parts[name] = el("div", { class: name });
    this.#blank = el("input", { type: "checkbox", id: "blank", onchange: () => {
      this.#picture.emptyIsKnown = this.#blank.checked;
      this.#changed();
    } });
    this.#node.replaceChildren(
      el("div", { class: "heading" }, el("div", {}, el("h2", {}, "Drawing board"),
        el("p", { class: "soft" }, "Draw a digit from 0 to 9. What you have not drawn yet is unknown, and the model fills it in."))),
      el("div", { class: "columns board" },
        el("div", { class: "card" },
          segmented("Tool", "tool", TOOLS, "draw", (tool) => { this.#grid.tool = tool; }),
          this.#grid.node,
          el("p", { class: "key-words" }, el("span", { class: "swatch ink" }), "drawn", el("span", { class: "swatch guess" }), "filled in by the model"),
          el("p", { class: "keys soft" }, "Arrow keys move, space draws or erases a square, H hides it."),
          el("p", { class: "actions" },
            el("button", { type: "button", id: "clear", onclick: () => this.#clear() }, "Clear"),
            el("label", { class: "check" }, this.#blank, "Empty squares are blank paper"))),
        el("div", { class: "card answers" }, el("div", {}, this.#parts.verdict, this.#parts.classes), this.#parts.given),
        el("div", { class: "card try" },
          el("h3", {}, "Take a digit"),
          el("p", { class: "chips" }, this.#facts.classes.map((name, k) =>
            el("button", { type: "button", class: "chip", "aria-label": `Take a ${name}`, onclick: () => this.#take(k) }, name))),
          el("h3", {}, "Hide a part"),
          el("p", { class: "chips" }, HALVES.map(([name, which]) =>
            el("button", { type: "button", class: "chip", onclick: () => this.#hide(name, which) }, name)),
          el("button", { type: "button", class: "chip", onclick: () => this.#hide("nothing", () => false) }, "Nothing")))));
  }

  #load(digit) {
    const examples = this.#facts.examples[digit];
    this.#picture.load(examples[this.#example % examples.length]);
    this.#example += 1;
    this.#blank.checked = true;
  }

  #take(digit) {
    this.#load(digit);
    tell(`A ${digit} is on the board`);
    this.#changed();
  }

  #hide(name, which) {
    this.#picture.hide(which);
    if (name !== "nothing") this.#picture.emptyIsKnown = this.#blank.checked = true;
    tell(`Hidden: ${name}`);
    this.#changed();
  }

  #clear() {
    this.#picture.clear();
    this.#blank.checked = false;
    tell("The board is empty");
    this.#changed();
  }

  #changed() {
    this.#grid.draw(null);
    this.#answers.ask(this.#picture.pixels());
  }

  async #ask(pixels, isOld) {
    try {
      const answer = await post("/api/board", { pixels });
      if (isOld()) return;
      this.#draw(pixels, answer);
    } catch (problem) {
      showProblem(problem);
    }
  }

  #draw(pixels, { proba, expected, given }) {
    const isEmpty = pixels.every((pixel) => pixel === null);
    this.#hasAnswer = true;
    this.#grid.draw(expected);
    const best = given[0].digit;
    this.#parts.verdict.replaceChildren(el("p", { class: "big" }, isEmpty ? "?" : String(best)),
      el("p", { class: "soft" }, isEmpty ? "Draw something: every digit is possible." : `${chance(proba[best])} sure`));
    this.#parts.classes.replaceChildren(probabilityBars(this.#facts.classes, proba, -1, () => "more"));
    this.#parts.given.replaceChildren(...given.map(({ digit, pixels: completed }) => el("figure", {},
      thumbnail(completed, (place) => pixels[place] !== null, `Completed as a ${digit}`),
      el("figcaption", {}, `as a ${digit}: ${chance(proba[digit])}`))));
    this.#node.dataset.answered = String(Number(this.#node.dataset.answered ?? 0) + 1);
  }
}

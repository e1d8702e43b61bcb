// One row: its classes, why, its cells. Every change of a cell is asked at once.

import { Latest, post } from "./api.js";
import { contributionBars, probabilityBars } from "./bars.js";
import { CellList } from "./cell_list.js";
import { chance, el, percent, select } from "./dom.js";
import { showProblem } from "./say.js";

export class RowPanel {
  #data; #moved; #row = null; #answer = null; #about = null; #cells; #parts = {}; #rows; #gaps; #surprise = 0;

  constructor(data, { moved }) {
    this.#data = data;
    this.#moved = moved;
    this.#rows = new Latest((...what) => this.#ask(...what));
    this.#gaps = new Latest((...what) => this.#askGaps(...what));
    this.#cells = new CellList(data.columns, () => this.#changed());
    for (const name of ["title", "badges", "classes", "why"]) this.#parts[name] = el("div", { class: name });
    this.node = el("aside", { class: "card row-panel", "aria-label": "The chosen row" },
      this.#parts.title, this.#parts.badges, this.#parts.classes, this.#parts.why, this.#cells.node);
  }

  pictures() {
    const [classes, why] = ["classes", "why"].map((name) => this.#parts[name].querySelector("svg"));
    if (!classes || !why) return [];
    const row = `row-${this.#row + 1}`;
    return [
      { name: `${row}-classes.svg`, words: `Probabilities of row ${this.#row + 1}`, drawing: classes },
      { name: `${row}-reasons.svg`, words: `What the cells of row ${this.#row + 1} say`, drawing: why },
    ];
  }

  open(row) {
    this.#row = row;
    this.#about = null;
    this.#surprise = 0;
    this.#cells.forget();
    this.#changed();
  }

  #changed() {
    this.#rows.ask(this.#row, this.#cells.changes);
  }

  async #ask(row, changes, isOld) {
    try {
      const answer = await post("/api/row", { row, changes });
      if (row !== this.#row) return;
      const isNew = this.#answer?.row !== row;
      this.#answer = answer;
      this.#cells.show(answer, isNew);
      this.#draw();
      this.#moved(Object.keys(changes).length ? answer : null);
      this.node.dataset.row = row;
      if (!isOld()) this.#gaps.ask(row, changes);
    } catch (problem) {
      if (problem.column) this.#cells.blame(problem.column, problem.message);
      else showProblem(problem);
    }
  }

  async #askGaps(row, changes, isOld) {
    try {
      const found = await post("/api/gaps", { row, changes });
      if (row !== this.#row || isOld()) return;
      this.#cells.fill(found.gaps);
      this.#surprise = found.surprise;
      this.#parts.badges.replaceChildren(...this.#badges());
    } catch {
      // the row itself has told what is wrong
    }
  }

  #draw() {
    const { classes, columns } = this.#data, answer = this.#answer;
    const best = answer.proba.indexOf(Math.max(...answer.proba));
    const about = this.#about ?? best;
    this.#parts.title.replaceChildren(el("h3", {}, `Row ${answer.row + 1}`), this.#verdict(best));
    this.#parts.badges.replaceChildren(...this.#badges());
    this.#parts.classes.replaceChildren(probabilityBars(classes, answer.proba, answer.label));
    const chooser = select("Class to explain", classes.map((name, k) => [String(k), name]), String(about), (value) => {
      this.#about = Number(value);
      this.#draw();
      this.#parts.why.querySelector("select").focus();
    });
    const hadFocus = this.#parts.why.contains(document.activeElement);
    this.#parts.why.replaceChildren(el("p", { class: "why-title" }, el("span", {}, "What speaks for"), chooser),
      contributionBars(columns, answer.cells, answer.added.map((cell) => cell[about])));
    if (hadFocus) chooser.focus();
  }

  #verdict(best) {
    const { classes } = this.#data, { proba, label } = this.#answer;
    const words = label < 0 ? "no label" : `label ${classes[label]}`;
    return el("p", {}, el("b", {}, `${classes[best]} ${chance(proba[best])}`), el("span", { class: "soft" }, ` · ${words}`));
  }

  #badges() {
    const { classes, doubted } = this.#data, { row, judged, label } = this.#answer, surprise = this.#surprise;
    const found = [];
    if (doubted.includes(row) && label >= 0) {
      const own = judged ? `: without this row, ${classes[label]} gets ${chance(judged[label])}` : "";
      found.push(el("span", { class: "badge alert" }, `Label doubted${own}`));
    }
    if (surprise >= 0.9) found.push(el("span", { class: "badge" }, `More surprising than ${percent(Math.min(surprise, 0.999), 1)} of the rows`));
    if (this.#cells.isEdited) found.push(el("span", { class: "badge edited" }, "Edited"));
    return found;
  }
}

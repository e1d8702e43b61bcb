// The table: open one, see what it holds, choose what to predict, fit.

import { post, Problem, upload } from "./api.js";
import { columnRow } from "./column_row.js";
import { classBar } from "./class_bar.js";
import { count, el, percent, plural, segmented, select } from "./dom.js";
import { chosenFile, takeDrops } from "./drop.js";
import { FitPanel } from "./fit_panel.js";
import { tell, trying } from "./say.js";

const EXAMPLES = [["iris", "Iris flowers"], ["wine", "Wines"], ["tumors", "Tumors"]];
const PROMISES = [
  ["Every row on a map", "Rows lie where the model sees them, with its classes around them. Labels that it doubts are ringed."],
  ["Blank a cell, move a value", "The point and the bars move at once: what the model thinks, and what each cell adds to it."],
  ["Gaps are filled honestly", "A missing cell shows what the model expects there, and how sure it is."],
];
const EFFORTS = [["fast", "Fast"], ["balanced", "Balanced"], ["best", "Best"]];

export class TablePage {
  #node; #go; #table = null; #target = null; #kinds = Object.create(null); #effort = "fast"; #fit; #limits;

  constructor(node, { go, fitted }) {
    this.#node = node;
    this.#go = go;
    this.#fit = new FitPanel({ go, fitted, ended: () => this.#draw() });
    takeDrops((file, isModel) => this.#open(file, isModel, fitted));
    this.fitted = fitted;
  }

  show() {}

  pictures() {
    return this.#fit.pictures();
  }

  /** What the server has open. */
  load(state) {
    this.#table = state.table;
    this.#limits = state.limits;
    this.#target = state.fit?.target ?? state.table?.target ?? null;
    this.#kinds = Object.create(null);
    this.#fit.load(state.fit);
    this.#draw();
  }

  #open(file, isModel) {
    return trying(async () => {
      tell(`Opening ${file.name}`);
      this.#checkSize(file, this.#limits[isModel ? "model" : "table"]);
      const state = await upload(isModel ? "/api/model" : "/api/table", file);
      await this.#opened(state, isModel ? "map" : "table");
    });
  }

  #checkSize(file, most) {
    if (file.size <= most) return;
    throw new Problem(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB, and Studio takes ${most / 2 ** 20} MB. Open a part of it.`);
  }

  #example(name) {
    return trying(async () => this.#opened(await post("/api/example", { name }), "table"));
  }

  async #opened(state, page) {
    this.load(state);
    if (state.map !== null) await this.fitted(state.map);
    this.#go(page);
    tell(state.table ? `${state.table.name} is open: ${plural(state.table.rows, "row")}` : "The model is open");
  }

  #draw() {
    this.#node.replaceChildren(...(this.#table ? this.#opened_parts() : [this.#empty()]));
  }

  #chooser(words, style) {
    const input = el("input", {
      type: "file", class: "unseen", accept: ".csv,.tsv,.txt,.gz,.latentia",
      onchange: () => chosenFile(input, (file, isModel) => this.#open(file, isModel)),
    });
    return el("label", { class: `button ${style}` }, input, words);
  }

  #empty() {
    return el("div", { class: "welcome" }, el("div", { class: "empty drop" },
      el("h2", {}, "See what a model thinks of your table"),
      el("p", {}, "Drop a CSV file here: gaps, text, and rows without a class are welcome. It stays on this machine."),
      el("p", { class: "actions" }, this.#chooser("Choose a file", "primary"),
        el("a", { class: "button", href: "#board" }, "Draw a digit")),
      el("p", { class: "examples" }, el("span", {}, "Or try"),
        EXAMPLES.map(([name, words]) =>
          el("button", { type: "button", class: "chip", onclick: () => this.#example(name) }, words)))),
    el("ul", { class: "promises" }, PROMISES.map(([title, words]) => el("li", { class: "card" }, el("h3", {}, title), el("p", { class: "soft" }, words)))));
  }

  #opened_parts() {
    const table = this.#table;
    const learned = table.columns.filter((column) => column.name !== this.#target);
    return [
      el("div", { class: "heading" },
        el("div", {}, el("h2", {}, table.name),
          el("p", { class: "soft" }, `${plural(table.rows, "row")}, ${plural(table.columns.length, "column")}, `
            + `${percent(table.missing, 1)} of the cells missing`)),
        this.#chooser("Open another", "")),
      ...table.notes.map((note) => el("p", { class: "hint" }, note)),
      el("div", { class: "columns two" }, this.#question(), this.#fit.node),
      el("div", { class: "card" }, el("h3", {}, "Columns to learn from"), this.#columns(learned)),
      this.#preview(),
    ];
  }

  #question() {
    const table = this.#table;
    const columns = table.columns.map((column) => [column.name, column.name]);
    const options = this.#target === null ? [["", "Choose a column"], ...columns] : columns;
    const chosen = table.columns.find((column) => column.name === this.#target);
    return el("div", { class: "card question" },
      el("h3", {}, "What should be predicted?"),
      el("p", {}, select("Column to predict", options, this.#target ?? "", (name) => {
        this.#target = name || null;
        this.#draw();
        this.#node.querySelector(".question select").focus();
      })),
      chosen ? classBar(chosen, table.rows)
        : el("p", { class: "hint" }, "No column looks like classes, with a few values that many rows share. Choose the "
          + "column to predict, or add one to the file: an empty cell is a row without a class."),
      segmented("How much is tried", "effort", EFFORTS, this.#effort, (value) => { this.#effort = value; }),
      el("p", { class: "actions" },
        el("button", { type: "button", class: "primary", id: "fit", disabled: this.#fit.isRunning || !this.#target,
          onclick: () => this.#start() }, this.#fit.isRunning ? "Fitting …" : "Fit")));
  }

  async #start() {
    const begun = await trying(() =>
      this.#fit.start({ target: this.#target, kinds: this.#kinds, effort: this.#effort }));
    if (begun) this.#draw();
  }

  #columns(columns) {
    const header = ["Column", "Kind", "Missing", "Values", "What it looks like"];
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Columns" },
      el("table", { class: "columns-table" },
        el("thead", {}, el("tr", {}, header.map((words) => el("th", { scope: "col" }, words)))),
        el("tbody", {}, columns.map((column) =>
          columnRow(column, this.#kinds[column.name] ?? column.kind, (kind) => {
            this.#kinds[column.name] = kind;
            tell(`${column.name} is ${kind}`);
          })))));
  }

  #preview() {
    const { columns, shown, rows } = this.#table;
    return el("details", { class: "card" }, el("summary", {}, `The first ${count(shown.length)} of ${plural(rows, "row")}`),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "First rows" }, el("table", {},
        el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col" }, column.name)))),
        el("tbody", {}, shown.map((row) => el("tr", {}, row.map((cell) =>
          el("td", cell === null ? { class: "gap" } : {}, cell ?? "missing"))))))));
  }
}

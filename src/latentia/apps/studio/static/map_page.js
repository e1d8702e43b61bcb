// The map: all rows in the latent plane, and the one that is looked at.

import { get } from "./api.js";
import { el, percent, plural, segmented, select } from "./dom.js";
import { MapDrawing } from "./map_drawing.js";
import { RowPanel } from "./row_panel.js";
import { tell, trying } from "./say.js";

const COLORS = [["class", "Class"], ["probability", "Probability"], ["surprise", "Surprise"]];

export class MapPage {
  #node; #go; #data = null; #drawing = null; #panel = null; #finder = null; #color = "class"; #class = 0;

  constructor(node, { go }) {
    this.#node = node;
    this.#go = go;
    this.version = null;
    this.#empty();
  }

  show() {
    this.#drawing?.resize();
  }

  pictures() {
    if (!this.#data) return [];
    return [
      { name: "map.svg", words: "The map, as it is colored now", drawing: this.#drawing.node },
      ...this.#panel.pictures(),
    ];
  }

  async load(version) {
    if (version === this.version) return;
    const data = await trying(() => get("/api/map"));
    if (data === null) return;
    this.#data = data;
    this.version = data.version;
    this.#color = "class";
    this.#class = 0;
    this.#draw();
    this.#select(data.doubted[0] ?? 0, false);
  }

  #empty() {
    this.#node.replaceChildren(el("div", { class: "empty" }, el("h2", {}, "No model yet"),
      el("p", {}, "Fit a table, or open a model file, and its rows appear here."),
      el("p", { class: "actions" }, el("a", { class: "button primary", href: "#table" }, "Open a table"))));
  }

  #draw() {
    const data = this.#data;
    this.#drawing = new MapDrawing(data, (row) => this.#select(row, true));
    this.#panel = new RowPanel(data, {
      moved: (place) => this.#drawing.move(place),
    });
    const { accuracy } = data.scores;
    this.#node.replaceChildren(
      el("div", { class: "heading" }, el("div", {}, el("h2", {}, `${data.target} in ${data.origin}`),
        el("p", { class: "soft" }, `${plural(data.x.length, "row")}, ${plural(data.classes.length, "class", "classes")}`
          + (accuracy === null ? "" : `; ${percent(accuracy, 1)} of new rows right, by cross-validation`)))),
      el("div", { class: "columns map" },
        el("div", { class: "card" }, this.#controls(), this.#drawing.node, this.#drawing.legend,
          el("p", { class: "soft caption" }, `${data.caption} Click a row, or walk with the arrow keys.`)),
        this.#panel.node, el("div", { class: "card doubted" }, this.#doubted())));
    this.#drawing.color(this.#color, this.#class);
    this.#drawing.resize();
  }

  #controls() {
    const data = this.#data;
    const chosen = select("Class whose probability colors the map", data.classes.map((name, k) => [String(k), name]), "0",
      (value) => this.#recolor("probability", Number(value)), { class: "of-class", hidden: true });
    this.#finder = el("input", { type: "number", id: "find-row", min: 1, max: data.x.length, value: 1,
      oninput: () => this.#find(Number(this.#finder.value)) });
    return el("div", { class: "controls" },
      segmented("Color by", "color", COLORS, this.#color, (value) => {
        chosen.hidden = value !== "probability";
        this.#recolor(value, Number(chosen.value));
      }), chosen,
      el("label", { class: "finder" }, el("span", {}, "Row"), this.#finder));
  }

  #recolor(by, of) {
    [this.#color, this.#class] = [by, of];
    this.#drawing.color(by, of);
    tell(`Colored by ${by}${by === "probability" ? ` of ${this.#data.classes[of]}` : ""}`);
  }

  #find(number) {
    if (Number.isInteger(number) && number >= 1 && number <= this.#data.x.length) this.#select(number - 1, false);
  }

  #select(row, told) {
    this.#drawing.select(row);
    if (document.activeElement !== this.#finder) this.#finder.value = row + 1;
    for (const chip of this.#node.querySelectorAll(".doubted button")) {
      chip.setAttribute("aria-pressed", String(Number(chip.dataset.row) === row));
    }
    this.#panel.open(row);
    if (told) tell(`Row ${row + 1}`);
  }

  #doubted() {
    const { doubted, codes, classes, judged_on: judged } = this.#data;
    if (!doubted.length) return [el("p", { class: "soft" }, "The model doubts no label.")];
    const shown = doubted.slice(0, 12);
    return [
      el("h3", {}, `${plural(doubted.length, "label")} that the model doubts`),
      el("p", { class: "soft" }, `${judged} Such a row may be unusual, or its label wrong.`),
      el("p", { class: "chips" }, shown.map((row) => el("button", {
        type: "button", class: "chip", "data-row": row, "aria-pressed": "false", onclick: () => this.#select(row, true),
      }, `Row ${row + 1}`, el("small", {}, classes[codes[row]]))),
      doubted.length > shown.length ? el("span", { class: "soft" }, `and ${doubted.length - shown.length} more, ringed on the map`) : null)];
  }
}

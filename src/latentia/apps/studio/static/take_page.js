// Everything that is shown can be taken along.

import { fetchFile } from "./api.js";
import { el } from "./dom.js";
import { tell, trying } from "./say.js";
import { save, svgFile } from "./svg_file.js";

const FILES = [
  ["report.html", "Report", "One page on the model and the table: scores, calibration, reasons, rows to look at. Needs no network."],
  ["model.latentia", "Model", "Opens here, in Python by latentia.load, and on the command line. Holds numbers, never code."],
  ["table.csv", "Table", "The columns that were learned from and the classes, as the code reads them."],
];

export class TakePage {
  #node; #pictures; #hasModel;

  constructor(node, { pictures, hasModel }) {
    this.#node = node;
    this.#pictures = pictures;
    this.#hasModel = hasModel;
  }

  async show() {
    const pictures = this.#pictures();
    if (!this.#hasModel() && !pictures.length) {
      this.#node.replaceChildren(el("div", { class: "empty" }, el("h2", {}, "Nothing to take along yet"),
        el("p", {}, "Fit a table or draw on the board: the code, the model, a report and the pictures will be here."),
        el("p", { class: "actions" }, el("a", { class: "button primary", href: "#table" }, "Open a table"))));
      return;
    }
    const code = this.#hasModel() ? await trying(async () => (await fetchFile("code.py")).text()) : null;
    this.#node.replaceChildren(
      el("div", { class: "heading" }, el("div", {}, el("h2", {}, "Take along"),
        el("p", { class: "soft" }, "Files are saved where your browser saves downloads. Nothing else is written."))),
      ...(code === null ? [] : [this.#files(code.includes("table.csv")), this.#code(code)]),
      this.#drawings(pictures));
  }

  #files(withTable) {
    const files = FILES.filter(([name]) => withTable || name !== "table.csv");
    return el("div", { class: "columns three" }, files.map(([name, title, words]) => el("div", { class: "card file" },
      el("h3", {}, title), el("p", { class: "soft" }, words),
      el("button", { type: "button", "data-file": name, onclick: () => this.#take(name) }, `Save ${name}`))));
  }

  #take(name) {
    return trying(async () => {
      tell(`Preparing ${name}`);
      save(await fetchFile(name), name);
      tell(`${name} is saved`);
    });
  }

  #code(code) {
    return el("div", { class: "card" },
      el("div", { class: "heading" }, el("h3", {}, "The code that does it again"),
        el("span", { class: "actions" },
          el("button", { type: "button", id: "copy", onclick: () => trying(async () => {
            await navigator.clipboard.writeText(code);
            tell("The code is copied");
          }) }, "Copy"),
          el("button", { type: "button", "data-file": "code.py", onclick: () => this.#take("code.py") }, "Save code.py"))),
      el("pre", { tabindex: 0, role: "region", "aria-label": "Code" }, el("code", {}, code)));
  }

  #drawings(pictures) {
    return el("div", { class: "card" }, el("h3", {}, "Pictures"),
      el("p", { class: "soft" }, "As they are drawn now, in SVG: sharp at any size."),
      el("p", { class: "chips" }, pictures.map(({ name, words, drawing }) => el("button", {
        type: "button", class: "chip", "data-file": name, onclick: () => this.#picture(name, drawing),
      }, words))));
  }

  /** A drawing on a hidden page has no looks: its page is shown for a moment, out of sight. */
  #picture(name, drawing) {
    const page = drawing.closest("section");
    const wasHidden = page?.hidden ?? false;
    if (wasHidden) page.hidden = false;
    save(svgFile(drawing), name);
    if (wasHidden) page.hidden = true;
    tell(`${name} is saved`);
  }
}

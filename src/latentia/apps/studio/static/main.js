// The page: which part of it is seen, and what they tell each other.

import { get, hasToken } from "./api.js";
import { BoardPage } from "./board_page.js";
import { el } from "./dom.js";
import { MapPage } from "./map_page.js";
import { showProblem, trying } from "./say.js";
import { TablePage } from "./table_page.js";
import { TakePage } from "./take_page.js";

const PAGES = ["table", "map", "board", "take"];
const node = (name) => document.getElementById(`page-${name}`);

const pages = {
  map: new MapPage(node("map"), { go }),
  board: new BoardPage(node("board")),
  take: new TakePage(node("take"), { pictures, hasModel: () => pages.map.version !== null, go }),
};
pages.table = new TablePage(node("table"), {
  go,
  fitted: (version) => pages.map.load(version),
});

function pictures() {
  return [...pages.map.pictures(), ...pages.table.pictures(), ...pages.board.pictures()];
}

function go(name) {
  if (location.hash === `#${name}`) show();
  else location.hash = name;
}

function show() {
  const asked = location.hash.slice(1);
  if (asked === "content") return;
  const name = PAGES.includes(asked) ? asked : "table";
  for (const page of PAGES) node(page).hidden = page !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${node(name).dataset.title} · Latentia Studio`;
  pages[name].show();
}

async function start() {
  if (!hasToken()) {
    document.querySelector("nav").hidden = true;
    document.getElementById("content").replaceChildren(
      el("div", { class: "empty" }, el("h2", {}, "This page needs its link"),
        el("p", {}, "Open Studio by the link that the terminal shows: it holds the token that keeps others out.")));
    return;
  }
  const state = await trying(() => get("/api/state"));
  if (state === null) return;
  pages.table.load(state);
  if (state.map !== null) await pages.map.load(state.map);
  addEventListener("hashchange", show);
  if (!location.hash && state.map !== null && state.table === null) go("map");
  else show();
  document.documentElement.dataset.ready = "yes";
}

addEventListener("unhandledrejection", (event) => showProblem(event.reason));
start();

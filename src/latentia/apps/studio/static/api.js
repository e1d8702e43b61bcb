// Requests to the server. The token comes with the link, after the #, and stays in this tab.

const KEY = "studio-token";

function findToken() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", location.pathname); // out of the address bar and the history
  }
  return sessionStorage.getItem(KEY) ?? "";
}

const token = findToken();

/** Why something cannot be done, in a sentence for the user. */
export class Problem extends Error {
  constructor(message, column = null) {
    super(message);
    this.column = column;
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { "X-Studio-Token": token } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("Studio does not answer. Is it still running in the terminal?");
  }
  return response;
}

async function json(response) {
  const found = await response.json();
  if (found.problem) throw new Problem(found.problem, found.column);
  return found;
}

export const hasToken = () => token !== "";
export const get = async (path) => json(await ask(path));
export const post = async (path, body) => json(await ask(path, { method: "POST", body: JSON.stringify(body) }));

/** Send a file as it is. */
export const upload = async (path, file) =>
  json(await ask(`${path}?name=${encodeURIComponent(file.name.slice(-80))}`, { method: "POST", body: file }));

/** A file from the server. */
export async function fetchFile(name) {
  const response = await ask(`/api/take/${name}`);
  if (!response.ok) await json(response);
  return response.blob();
}

/** One request at a time: while one is under way, only the newest of those that follow is kept. */
export class Latest {
  #send;
  #waiting = null;
  #busy = false;

  constructor(send) {
    this.#send = send; // an async function
  }

  ask(...what) {
    this.#waiting = what;
    if (!this.#busy) this.#run();
  }

  async #run() {
    this.#busy = true;
    while (this.#waiting) {
      const what = this.#waiting;
      this.#waiting = null;
      await this.#send(...what, () => this.#waiting !== null);
    }
    this.#busy = false;
  }
}

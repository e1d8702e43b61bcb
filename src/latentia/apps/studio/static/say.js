// Messages: problems stand at the top of the page, news are for those who cannot see it move.

const notice = document.getElementById("notice");
const status = document.getElementById("status");

notice.querySelector("button").addEventListener("click", () => hideProblem());

export function showProblem(problem) {
  notice.querySelector("p").textContent = problem.message ?? String(problem);
  notice.hidden = false;
  notice.scrollIntoView({ block: "nearest" });
}

export function hideProblem() {
  notice.hidden = true;
}

export function tell(text) {
  status.textContent = text;
}

/** Run something; what goes wrong is shown. */
export async function trying(work) {
  try {
    hideProblem();
    return await work();
  } catch (problem) {
    showProblem(problem);
    return null;
  }
}

// The slider, menus, links and searches: each changes the address, and nothing else.

import { change, go, view } from "./address.js";

let dragging = false; // a whole drag is one entry of the history

function slide(input) {
  document.getElementById(`${input.id}-now`).textContent = input.value;
  change({ [input.dataset.sets]: input.value }, { replace: dragging });
  dragging = true;
}

function choose(element) {
  const name = element.dataset.sets;
  if (name === "e") {
    const kept = new URLSearchParams([...view()].filter(([one]) => ["m", "rule", "influence", "objective", "tab"].includes(one)));
    kept.set("e", element.value);
    go(kept);
  } else if (name === "influence" || name === "eps") {
    const test = document.getElementById("influence").value;
    const eps = document.getElementById("eps").value || "0";
    change({ influence: test === "support" ? "" : `${test}:${name === "influence" && test === "tv" ? "0.5" : eps}` });
  } else if (name === "rule") {
    const onlySupport = element.value === "published" || element.value === "printed";
    change({ rule: element.value, ...(onlySupport ? { influence: "" } : {}) });
  } else if (name === "t") change({ t: element.value, state: "", action: "" });
  else if (name === "m" || name === "k") change({ [name]: element.value });
  else change({ [name]: element.value, page: "" });
}

/** The choices of a what-if, with one of them changed; as the address writes them, in the order of choosing. */
function chooseAction(select) {
  const t = select.dataset.choice;
  const made = (view().get("if") || "").split(",").filter((one) => one && one.split(":")[0] !== t);
  if (select.value !== select.dataset.done) made.push(`${t}:${select.value}`);
  change({ if: made.join(",") });
}

function follow(event) {
  const link = event.target.closest("a[href]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const href = link.getAttribute("href");
  if (!href.startsWith("?")) return;
  event.preventDefault();
  const to = new URLSearchParams(href.slice(1));
  // A link that was made for k alone leaves the rest as it is now, not as it was when the link was made.
  const only = link.closest("[data-only]")?.dataset.only.split(" ");
  if (only) change(Object.fromEntries(only.map((name) => [name, to.get(name) ?? ""])));
  else go(to);
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy).textContent.trimEnd();
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = "Selected: copy it with the keyboard";
  }
}

/** The slider and the number of changes stand where the address says; where it does not say, where the answer says k and m are. */
export function settle() {
  const now = document.getElementById("now");
  if (!now) return;
  for (const name of ["k", "m"]) {
    const input = document.getElementById(name);
    if (!input) continue;
    input.max = now.dataset[`${name}Max`];
    input.value = view().get(name) ?? now.dataset[name]; // the answer may be to an older question
    if (name === "k") document.getElementById("k-now").textContent = input.value;
  }
  for (const row of document.querySelectorAll(".ladder tr[data-k]")) {
    row.classList.toggle("here", row.dataset.k === now.dataset.k);
  }
}

export function listen() {
  let waiting;
  document.addEventListener("click", follow);
  document.addEventListener("input", (event) => {
    const element = event.target;
    if (element.matches("input[type=range][data-sets]")) slide(element);
    if (element.matches("input[type=search][data-sets]")) {
      clearTimeout(waiting);
      waiting = setTimeout(() => change({ [element.dataset.sets]: element.value, page: "" }, { replace: true }), 150);
    }
  });
  document.addEventListener("change", (event) => {
    const element = event.target;
    if (element.matches("input[type=range]")) dragging = false;
    else if (element.matches("[data-choice]")) chooseAction(element);
    else if (element.matches("[data-sets]:not([type=search])")) choose(element);
  });
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
}

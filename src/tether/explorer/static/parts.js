// Parts of the page: each is asked for when what it needs has changed, and put in place when it comes.

import { headers, view } from "./address.js";

const loading = new Map(); // part → what stops its request

/** What in the address a part depends on. */
function key(element) {
  const now = view();
  return element.dataset.needs.split(" ").map((name) => `${name}=${now.get(name) ?? ""}`).join("&");
}

/** A complaint at the top of the page; none takes it away. */
export function complain(text) {
  const place = document.getElementById("problem");
  place.textContent = text;
  place.hidden = !text;
}

/** Move what a fragment has for other places of the page to these. */
function distribute(fragment) {
  for (const piece of fragment.querySelectorAll("[data-into]")) {
    const place = document.getElementById(piece.dataset.into);
    if (place) {
      const refocus = focused(place);
      place.replaceChildren(...piece.childNodes);
      refocus();
    }
    piece.remove();
  }
}

/** What has the focus inside an element, so that it can be found again after the element was filled anew. */
function focused(element) {
  const active = document.activeElement;
  if (!element.contains(active)) return () => {};
  const { id } = active;
  const choice = active.dataset?.choice;
  const text = active.textContent;
  const start = active.selectionStart;
  return () => {
    const again =
      (id && document.getElementById(id)) ||
      (choice && element.querySelector(`[data-choice="${CSS.escape(choice)}"]`)) ||
      [...element.querySelectorAll("a, button")].find((one) => one.textContent === text) ||
      element.querySelector("[aria-current]");
    again?.focus({ preventScroll: true });
    if (start !== undefined && again?.type === "search") again.setSelectionRange(start, start);
  };
}

async function load(element) {
  const name = element.dataset.part;
  const wanted = key(element);
  loading.get(name)?.abort();
  const stop = new AbortController();
  loading.set(name, stop);
  element.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(`part/${name}?${view()}`, { headers, signal: stop.signal });
    const text = await response.text();
    if (response.status === 204 || stop.signal.aborted) return;
    if (response.status === 403) throw new Error("refused");
    const fragment = new DOMParser().parseFromString(text, "text/html").body;
    const refocus = focused(element);
    distribute(fragment);
    const told = [...document.querySelectorAll("[data-part] > .problem")].filter((one) => !element.contains(one));
    const again = fragment.querySelector(".problem")?.textContent; // what went wrong for all is said once
    if (told.some((one) => one.textContent === again)) fragment.replaceChildren();
    element.replaceChildren(...fragment.childNodes);
    element.dataset.key = wanted;
    refocus();
    complain("");
    element.dispatchEvent(new CustomEvent("part", { bubbles: true, detail: name }));
  } catch (error) {
    if (error.name !== "AbortError") complain("The program does not answer: it was stopped. Start tether explore again.");
  } finally {
    if (loading.get(name) === stop) {
      loading.delete(name);
      element.removeAttribute("aria-busy");
    }
  }
}

let asking = 0; // questions under way; the page is quiet when there are none

/** The visible parts that are not as the address wants them. */
function missing() {
  return [...document.querySelectorAll("[data-part]")].filter(
    (element) => !element.closest("[hidden]") && element.dataset.key !== key(element),
  );
}

/**
 * Ask for every visible part whose needs have changed: first the question, then the open panel from top to bottom, and
 * at last what takes long. What was asked for an older view is asked for no more: the program then stops computing it.
 */
export async function refresh() {
  for (const stop of loading.values()) stop.abort();
  document.body.removeAttribute("data-quiet");
  asking += 1;
  try {
    const now = view().toString();
    const isLater = (element) => "later" in element.dataset;
    // What stands beside the sliders comes first: it is what one looks at while moving them.
    const first = missing().filter((element) => element.closest("aside") && !isLater(element));
    for (const element of first) {
      await load(element);
      if (now !== view().toString()) return; // moved on meanwhile
    }
    await Promise.all(missing().filter((element) => !first.includes(element) && !isLater(element)).map(load));
    for (const element of missing().filter(isLater)) {
      if (now !== view().toString()) return;
      await load(element);
    }
  } finally {
    asking -= 1;
    document.body.toggleAttribute("data-quiet", asking === 0);
  }
}

// The explorer's page: the address bar says what is shown, the server says what that is.

import { change, view } from "./address.js";
import { listen, settle } from "./controls.js";
import { listenToKeys, settleTables } from "./keys.js";
import { refresh } from "./parts.js";

/** Show the panel that the address names. */
function open() {
  const before = document.querySelector("[role=tab][aria-selected=true]");
  const name = view().get("tab") ?? "answer";
  const wanted = document.getElementById(`tab-${name}`) ? name : "answer";
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const here = tab.dataset.tab === wanted;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    document.getElementById(`panel-${tab.dataset.tab}`).hidden = !here;
  }
  // A link above the tabs may open one of them: it is then to be seen.
  if (before && before.dataset.tab !== wanted) {
    document.querySelector(":popover-open")?.hidePopover();
    document.getElementById(`tab-${wanted}`).scrollIntoView({ block: "nearest" });
  }
}

document.addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  // What was searched for in one panel is not what another has.
  if (tab) change({ tab: tab.dataset.tab === "answer" ? "" : tab.dataset.tab, q: "", page: "" });
});
document.addEventListener("part", () => {
  settle();
  settleTables();
});
window.addEventListener("view", () => {
  open();
  refresh();
});

/** Three hints at the first visit; where nothing can be kept (a notebook), none. */
function hint() {
  const hints = document.getElementById("hints");
  try {
    hints.hidden = localStorage.getItem("tether-hints") === "seen";
    document.getElementById("hints-off").addEventListener("click", () => {
      localStorage.setItem("tether-hints", "seen");
      hints.hidden = true;
    });
  } catch {
    hints.hidden = true;
  }
}

hint();
listen();
listenToKeys();
open();
refresh();

// The explorer's page: the address bar says what is shown, the server says what that is.

import { change, view } from "./address.js";
import { listen, settle } from "./controls.js";
import { listenToKeys, settleTables } from "./keys.js";
import { refresh } from "./parts.js";

/** Show the panel that the address names. */
function open() {
  const name = view().get("tab") ?? "answer";
  const wanted = document.getElementById(`tab-${name}`) ? name : "answer";
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const here = tab.dataset.tab === wanted;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    document.getElementById(`panel-${tab.dataset.tab}`).hidden = !here;
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
listen();
listenToKeys();
open();
refresh();

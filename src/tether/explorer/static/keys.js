// Without a mouse: tables of links are one stop of the tab key, and arrows move inside them; tabs likewise.

const TABLES = ".heat, .grid";

/** The cells of a table that are links, row by row. */
function cells(table) {
  return [...table.rows].map((row) => [...row.querySelectorAll("a")]).filter((row) => row.length);
}

/** Only one cell of each table is reached by the tab key: the present one, or the first. */
export function settleTables() {
  for (const table of document.querySelectorAll(TABLES)) {
    const links = cells(table).flat();
    const here = links.find((one) => one.getAttribute("aria-current")) ?? links[0];
    for (const one of links) one.tabIndex = one === here ? 0 : -1;
  }
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function moveInTable(event) {
  const table = event.target.closest(TABLES);
  const step = STEPS[event.key];
  if (!table || !step) return;
  const rows = cells(table);
  const i = rows.findIndex((row) => row.includes(event.target));
  if (i < 0) return;
  const j = rows[i].indexOf(event.target);
  const next = rows[i + step[0]]?.[Math.min(j + step[1], (rows[i + step[0]]?.length ?? 1) - 1)];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function moveInTabs(event) {
  if (event.target.role !== "tab") return;
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const i = tabs.indexOf(event.target);
  const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = tabs[(to + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

export function listenToKeys() {
  document.addEventListener("keydown", moveInTable);
  document.addEventListener("keydown", moveInTabs);
}

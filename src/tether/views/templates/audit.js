"use strict";
// Sorts and filters the table of episodes, and shows 25 of them at a time (7 on a phone). Without it the table stays as it is: all rows.
(() => {
  const table = document.getElementById("listed"), body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells], form = document.getElementById("filter");
  const find = document.getElementById("find"), outcome = document.getElementById("outcome");
  const sort = document.getElementById("sort"), more = document.getElementById("more");
  const cards = [...document.querySelectorAll("button.card[data-show]")];
  const phone = matchMedia("(max-width: 46rem)");
  let page = phone.matches ? 7 : 25;
  let most = page;
  const shown = document.getElementById("shown"), nouns = shown.dataset.nouns;
  const words = new Intl.Collator(undefined, { numeric: true });
  const numbers = new Set(["number", "whole", "interval"]);

  function compare(a, b, column) {
    const one = a.cells[column], other = b.cells[column];
    const empty = !one.textContent.trim() - !other.textContent.trim();
    if (empty) return { order: empty, always: true };
    if (one.dataset.key !== undefined && other.dataset.key !== undefined) return { order: one.dataset.key - other.dataset.key };
    return { order: words.compare(one.textContent, other.textContent) };
  }

  function arrange(column, direction) {
    const sign = direction === "descending" ? -1 : 1;
    const place = new Map(rows.map((row, i) => [row, i]));
    const sorted = direction === "none" ? rows : [...rows].sort((a, b) => {
      const { order, always } = compare(a, b, column); // what is empty comes last, whichever way
      return (always ? order : sign * order) || place.get(a) - place.get(b);
    });
    body.append(...sorted);
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
    sort.value = direction === "none" ? "" : `${column} ${direction}`;
    most = page;
    filter();
  }

  function filter() {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const show = cards.filter(card => card.getAttribute("aria-pressed") === "true").map(card => card.dataset.show);
    let count = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      const fits = wanted.every(word => text.includes(word))
        && (!outcome.value || row.dataset.outcome === outcome.value)
        && show.every(kind => row.dataset.show.split(" ").includes(kind));
      count += fits;
      row.hidden = !fits || count > most;
    }
    more.hidden = count <= most;
    more.textContent = `${page} more`;
    shown.textContent = count === rows.length ? `${count} ${nouns}` : `${count} of ${rows.length} ${nouns}`;
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    const first = numbers.has(head.dataset.kind) ? "descending" : "ascending";
    const second = first === "descending" ? "ascending" : "descending";
    button.addEventListener("click", () => arrange(column, head.getAttribute("aria-sort") === first ? second : first));
  });
  sort.addEventListener("change", () => {
    const [column, direction] = sort.value ? sort.value.split(" ") : [-1, "none"];
    arrange(Number(column), direction);
  });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", () => { most = page; filter(); });
  more.addEventListener("click", () => { most += page; filter(); });
  for (const card of cards) {
    card.disabled = false;
    card.setAttribute("aria-pressed", "false");
    card.addEventListener("click", () => {
      card.setAttribute("aria-pressed", String(card.getAttribute("aria-pressed") !== "true"));
      most = page;
      filter();
    });
  }
  phone.addEventListener("change", () => { most = page = phone.matches ? 7 : 25; filter(); });
  form.hidden = false;
  filter();
})();

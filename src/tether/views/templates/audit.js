"use strict";
// Sorts and filters the table of episodes. Without it the table stays as it is: all rows, the largest gain first.
(() => {
  const table = document.getElementById("listed"), body = table.tBodies[0], rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells], form = document.getElementById("filter");
  const find = document.getElementById("find"), outcome = document.getElementById("outcome");
  const verdict = document.getElementById("verdict"), sort = document.getElementById("sort");
  const shown = document.getElementById("shown");
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
  }

  function filter() {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = wanted.every(word => text.includes(word))
        && (!outcome.value || row.dataset.outcome === outcome.value)
        && (!verdict || !verdict.value || row.dataset.verdict === verdict.value);
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = count === rows.length ? `${count} episodes` : `${count} of ${rows.length} episodes`;
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
  form.addEventListener("input", filter);
  form.hidden = false;
  filter();
})();

// Names that the theme leaves out, for those who cannot see the page: of the search, and of the buttons beside code.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "group");
}).observe(document.body, { childList: true, subtree: true });

// Names that the theme leaves out, for those who cannot see the page: of the search, and of the buttons beside code.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
new MutationObserver(() => {
  for (const [i, nav] of document.querySelectorAll("nav.md-code__nav").entries()) {
    if (!nav.hasAttribute("aria-label")) nav.setAttribute("aria-label", `Code block ${i + 1}`);
  }
}).observe(document.body, { childList: true, subtree: true });

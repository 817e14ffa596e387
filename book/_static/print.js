// Prepares a page for paper, as `make pdf` prints it: the article alone, unfolded, everything as wide as its place.
async () => {
  "use strict";
  const STYLES = /(pygments|claims|register|custom)\.css/;
  // What a page has for a screen: what opens, scrolls or leads to a cell, code that is folded away.
  const SCREEN =
    ".headerlink, .claim-cards, .toctree-wrapper, #register-filters, a[download], details.hide, .in-cell, .by-hand, button, " +
    "svg.narrow, .register-claim :is(.note, .about), mjx-assistive-mml";

  const article = document.querySelector("article");
  for (const folded of article.querySelectorAll("details")) folded.open = true;
  await window.MathJax?.startup?.promise;
  dispatchEvent(new Event("beforeprint")); // formulas are typeset
  for (const link of document.querySelectorAll("link[rel=stylesheet]")) if (!STYLES.test(link.href)) link.remove();
  for (const one of article.querySelectorAll(SCREEN)) one.remove();
  const symbols = document.querySelectorAll("svg:has(> symbol)");
  document.body.replaceChildren(...symbols, article);
  const foot = `${JSON.stringify(article.querySelector("h1").textContent.trim())} " · " counter(page)`;
  document.head.append(Object.assign(document.createElement("style"), {
    textContent: `@page { @bottom-center { content: ${foot}; } }`,
  }));
  // Names of places become those of this page, since pages are joined.
  const page = location.pathname.split("/").at(-1).replace(/\.html$/, "");
  for (const link of article.querySelectorAll("a[href^='#']")) {
    const place = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (place && !place.id.startsWith(`${page}:`)) place.id = `${page}:${place.id}`;
    if (place) link.href = `#${place.id}`;
  }
  await document.fonts.ready;
  // Paper does not scroll: what is wider than its place is drawn smaller.
  for (const element of article.querySelectorAll("mjx-container, table")) {
    const place = element.parentElement.closest("p, li, dd, td, th, figcaption, div, section");
    const { paddingLeft, paddingRight } = getComputedStyle(place);
    const room = place.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    const { width } = (element.querySelector(":scope > svg") ?? element).getBoundingClientRect();
    if (width > room + 0.5) element.style.zoom = room / width;
  }
}

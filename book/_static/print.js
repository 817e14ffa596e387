// The book on paper, laid out as `make pdf` prints it: formulas typeset, all as wide as its place, figures where they fit.
(() => {
  "use strict";
  const LEAST = 0.75; // lines of code that would be drawn smaller could not be read: they are broken instead
  const WHOLE =
    "h3, h4, h5, .sumexp-figure, .cell_input, .cell_output .output:not(:has(.sumexp-figure)), tr, div.math, " +
    ".admonition:is(.exercise, .theorem, .definition, .corollary, .lemma, .proposition)";
  const TEXT = "p, ul, ol, div.math";
  const box = (element) => element.getBoundingClientRect();

  // MathJax would write each formula a second time, for screen readers, beside its picture.
  if (window.MathJax) MathJax.options = { ...MathJax.options, enableAssistiveMml: false };

  /** Have formulas drawn; a reader who listens hears them as they were written. */
  const typeset = async () => {
    await window.MathJax?.startup.promise;
    await document.fonts.ready;
    for (const formula of window.MathJax?.startup.document.math ?? []) {
      const drawn = formula.typesetRoot.querySelector("svg");
      drawn.removeAttribute("aria-hidden");
      drawn.setAttribute("aria-label", formula.math);
    }
  };

  /** Draw what is wider than its place smaller: paper does not scroll. */
  const fit = () => {
    const wide = [];
    document.body.classList.add("measured");
    for (const pre of document.querySelectorAll("pre")) {
      const scale = pre.clientWidth / (pre.scrollWidth + 1 + parseFloat(getComputedStyle(pre).paddingRight));
      if (pre.scrollWidth > pre.clientWidth && scale > LEAST) wide.push([pre, scale]);
    }
    document.body.classList.remove("measured");
    for (const element of document.querySelectorAll("mjx-container, table")) {
      const place = element.parentElement.closest("p, li, dd, td, th, figcaption, div, section");
      if (!place) continue;
      const { paddingLeft, paddingRight } = getComputedStyle(place);
      const room = place.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
      const { width } = box(element.querySelector(":scope > svg") ?? element);
      if (width > room + 0.5) wide.push([element, room / width]);
    }
    for (const [element, scale] of wide) element.style.zoom = scale;
  };

  /** Let text overtake a figure that no longer fits on its sheet, of which it would leave the rest white.
   *
   * On which sheet a thing will lie is estimated; where that is wrong a figure stands a paragraph later, no more.
   */
  const float = (height) => {
    for (const article of document.querySelectorAll("article")) {
      const { top } = box(article);
      let white = 0, end = 0;
      const left = (element) => height - (box(element).top - top + white) % height;
      for (const element of [...article.querySelectorAll(WHOLE)]) {
        if (box(element).bottom <= end) continue; // within one that was looked at
        const more = /^H/.test(element.tagName) ? 60 : 0; // two lines below a heading
        const needs = () => Math.min(height, box(element).height + more);
        const cell = element.closest(".cell");
        const moves = element.matches(".sumexp-figure") && !cell?.querySelector(".cell_input");
        const block = moves ? cell ?? element : null;
        const next = () => block?.nextElementSibling;
        while (needs() > left(element) && next()?.matches(TEXT) && box(next()).height < left(element)) block.before(next());
        if (needs() > left(element)) white += left(element);
        end = box(element).bottom;
      }
    }
  };

  let drawn = [];
  window.sumexpPrint = {
    async layOut(height) {
      await typeset();
      fit();
      float(height);
    },
    /** Take pictures out while sheets are counted: the browser works out styles of what is hidden, too. */
    blank() {
      drawn = [...document.querySelectorAll("svg:not(svg svg, :has(symbol))")].map((svg) => [svg, [...svg.childNodes]]);
      for (const [svg] of drawn) svg.replaceChildren();
    },
    /** Write the number of its sheet to each line of the contents, and draw again. */
    number(sheets) {
      for (const place of document.querySelectorAll("[data-target]")) place.textContent = sheets[place.dataset.target];
      for (const [svg, parts] of drawn) svg.replaceChildren(...parts);
    },
  };
})();

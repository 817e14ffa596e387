// The book on paper, as `make pdf` prints it: all pages in one document, which is laid out for sheets: formulas typeset,
// everything as wide as its place.
(() => {
  "use strict";
  // What a page has for a screen: what opens, scrolls or leads to a cell, code that is folded away, graphs to click in.
  const SCREEN =
    "article :is(script, link, svg:has(> symbol)), .headerlink, .claim-cards, .toctree-wrapper, [id$=':register-filters'], " +
    "a[download], details.hide, .in-cell, .by-hand, svg.narrow, section:has(> .register-chapter), " +
    ".register-claim :is(.note, .about)";
  // Pages that stand in the contents without their sections: pages before them list what these are.
  const BRIEF = /^book\/(errata\/|results|register)/;
  const LEAST = 0.75; // lines of code that would be drawn smaller could not be read: they are broken instead
  const box = (element) => element.getBoundingClientRect();

  /** Give an element another name. */
  const rename = (element, name) => {
    const other = document.createElement(name);
    for (const { name, value } of element.attributes) other.setAttribute(name, value);
    other.append(...element.childNodes);
    element.replaceWith(other);
    return other;
  };

  /** Leave of the pages what is for paper, unfolded, with headings below those of parts. */
  const unfold = () => {
    for (const one of document.querySelectorAll(SCREEN)) one.remove();
    for (const cell of document.querySelectorAll(".cell"))
      if (!cell.textContent.trim() && !cell.querySelector("svg, img")) cell.remove();
    for (const summary of document.querySelectorAll("details > summary")) rename(summary, "p").className = "summary";
    for (const folded of document.querySelectorAll("details")) rename(folded, "div");
    for (const heading of document.querySelectorAll("article :is(h1, h2, h3, h4, h5):not(.part)"))
      rename(heading, `h${Number(heading.localName[1]) + 1}`);
  };

  /** Have links between pages lead within the document; a link to a page that it lacks becomes its text. */
  const link = (pages) => {
    for (const link of document.querySelectorAll("article a[href]:not([href^='#'])")) {
      const { protocol, pathname, hash } = new URL(link.getAttribute("href"), `book:///${link.closest("article").id}`);
      const page = pathname.slice(1).replace(/\.html$/, "");
      if (protocol !== "book:") continue;
      if (pages.has(page)) link.setAttribute("href", `#${page}${hash.replace("#", ":")}`);
      else link.replaceWith(...link.childNodes);
    }
  };

  /** Name each page at the head of its sheets, and its headings in the contents. */
  const list = (contents, articles) => {
    const book = document.title;
    let heads = "";
    for (const [number, article] of articles.entries()) {
      const title = article.querySelector("h2").textContent;
      article.style.page = `sheet-${number}`;
      const [left, right] = [book, title === book ? "" : title].map((head) => JSON.stringify(head));
      heads += `@page sheet-${number} { @top-left { content: ${left}; } @top-right { content: ${right}; } }\n`;
      for (const heading of article.querySelectorAll(BRIEF.test(article.id) ? "h1, h2" : "h1, h2, h3")) {
        const level = heading.localName[1], target = heading.closest(level === "2" ? "article" : "[id]").id;
        contents.insertAdjacentHTML("beforeend",
          `<li class="level-${level}"><a href="#${target}"><span class="entry">${heading.innerHTML.trim()}</span>` +
          `<span class="number" data-target="${target}"></span></a></li>`);
      }
    }
    document.head.append(Object.assign(document.createElement("style"), { textContent: heads }));
  };

  const contents = document.querySelector(".contents ol");
  if (contents) {
    const articles = [...document.querySelectorAll("article")];
    unfold();
    link(new Set(articles.map((article) => article.id)));
    list(contents, articles);
  }
  const within = [...document.querySelectorAll("a[href^='#']")].map((link) => link.getAttribute("href"));

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

  window.sumexpPrint = {
    /** Links that lead nowhere. */
    lost: [...new Set(within)].filter((href) => !document.getElementById(href.slice(1))).sort(),
    async layOut() {
      await typeset();
      fit();
    },
    /** Write the number of its sheet to each line of the contents. */
    number(sheets) {
      for (const place of document.querySelectorAll("[data-target]")) place.textContent = sheets[place.dataset.target];
    },
  };
})();

// Formulas are typeset by and by: those on the screen before the text is shown, so that nothing moves; the others while
// the browser has nothing else to do; those in a folded entry of the register or a hidden card when that is shown.
(() => {
  "use strict";
  if (!window.MathJax) return; // a page without formulas
  const SLICE = 25; // how long to keep the browser busy, in ms
  const PATIENCE = 4000; // how long a text may wait for its formulas, in ms
  const FOLDED = "details.register-claim:not([open]), .claim-card[hidden]";
  const root = document.documentElement;
  const waiting = new Set();
  const urgent = new Set();
  let resized = 0;
  let isReady;
  const ready = new Promise((go) => { isReady = go; });

  root.classList.add("maths-awaited");
  const show = () => root.classList.remove("maths-awaited");
  // Whatever goes wrong, or takes too long, the text is shown.
  addEventListener("error", show, true);
  setTimeout(show, PATIENCE);

  // What is wider than its column scrolls, and what scrolls can be reached by keyboard.
  const fit = (formulas) => {
    const found = formulas.map((formula) => {
      const held = formula.querySelector("mjx-container");
      if (formula.tagName === "DIV") return [formula, held, held && held.scrollWidth > held.clientWidth];
      const column = formula.closest("p, li, dd, td, th, summary, figcaption, div");
      return [formula, formula, held && column && held.offsetWidth > column.clientWidth];
    });
    for (const [formula, scrolls, isWide] of found) {
      if (formula.classList.toggle("wide", Boolean(isWide))) scrolls.tabIndex = 0;
      else scrolls?.removeAttribute("tabindex");
    }
    dispatchEvent(new Event("fitted"));
  };
  const isRaw = (formula) => !formula.querySelector("mjx-container");
  const typeset = async (formulas) => {
    const chosen = formulas.filter(isRaw);
    for (const formula of chosen) waiting.delete(formula), urgent.delete(formula);
    if (!chosen.length) return;
    await MathJax.typesetPromise(chosen);
    fit(chosen);
  };
  /** For other scripts: all that an element holds, once MathJax is there. */
  const typesetIn = (place) => ready.then(() => typeset([...place.querySelectorAll(".math")]));
  const idle = () => new Promise((go) => (window.requestIdleCallback ?? setTimeout)(go, { timeout: 100 }));
  const frame = () => new Promise(requestAnimationFrame);
  /** Whether it stands in what is folded: to ask where that is would have the browser lay it out. */
  const isFolded = (formula) => formula.closest("details:not([open]), [hidden]") && !formula.closest("summary");
  const near = (formula) => {
    const [box] = formula.getClientRects();
    return box && box.bottom > -innerHeight / 2 && box.top < 1.5 * innerHeight;
  };

  const rest = async (formulas) => {
    for (let next = 0, size = 8; next < formulas.length || urgent.size;) {
      await (urgent.size ? frame() : idle());
      let batch = [...urgent].slice(0, 16); // not fewer: the browser lays out the page after each batch
      if (!batch.length) {
        batch = formulas.slice(next, next + size);
        next += size;
      }
      const start = performance.now();
      await typeset(batch.filter((formula) => !formula.closest(FOLDED) || formula.closest("summary")));
      size = Math.max(8, Math.min(64, Math.round(size * Math.min(2, SLICE / (performance.now() - start)))));
    }
  };

  const pageReady = async () => {
    isReady();
    const formulas = [...document.querySelectorAll(".math")];
    for (const formula of formulas) waiting.add(formula);
    const first = formulas.filter((formula) => !isFolded(formula) && near(formula));
    await typeset(first);
    show();
    if (location.hash && !scrollY) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    const coming = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) urgent[isIntersecting && waiting.has(target) ? "add" : "delete"](target);
    }, { rootMargin: "50%" });
    for (const formula of waiting) if (!isFolded(formula)) coming.observe(formula);
    const here = Math.max(0, formulas.indexOf(first.at(-1)));
    await rest([...formulas.slice(here), ...formulas.slice(0, here)]);
  };

  document.addEventListener("toggle", ({ target }) => {
    if (target.open) typesetIn(target);
  }, true);
  // A browser prints as soon as this returns.
  addEventListener("beforeprint", () => {
    const all = [...waiting].filter(isRaw);
    waiting.clear();
    if (all.length) MathJax.typeset(all);
  });

  window.sumexpMaths = { typeset: typesetIn };
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => fit([...document.querySelectorAll(".math")].filter((one) => !isRaw(one) && !isFolded(one))), 200);
  });
  MathJax.startup = { ...MathJax.startup, pageReady };
})();

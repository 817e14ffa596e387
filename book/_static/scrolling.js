// What scrolls to the side can be reached by keyboard, and fades where more of it is: pictures, tables and code on a
// narrow screen. maths.js lets formulas be reached.
(() => {
  "use strict";
  const PLACES = "table, pre, .register-scroll, .pst-scrollable-table-container, .cell_output .text_html, " +
    ".figure-picture, mjx-container[tabindex], .math[tabindex]";
  const SHRUNK = 0.87; // of what is set smaller: 0.7rem instead of 0.8 (custom.css)
  const isMore = (place) => place.scrollLeft + place.clientWidth < place.scrollWidth - 1 && place.clientWidth > 0;
  const reach = () => {
    const article = document.querySelector("article");
    const places = [...article?.querySelectorAll(PLACES) ?? []];
    const printed = [...article?.querySelectorAll(".cell_output pre") ?? []];
    for (const one of printed) one.classList.remove("tight");
    const slightly = printed.filter((one) => one.scrollWidth > one.clientWidth && one.scrollWidth * SHRUNK <= one.clientWidth);
    for (const one of slightly) {
      one.classList.add("tight");
      one.tabIndex = -1; // it scrolls no longer
    }
    const found = places.map((place) => [place, place.scrollWidth > place.clientWidth && place.clientWidth, isMore(place)]);
    for (const [place, scrolls, more] of found) {
      if (scrolls) place.tabIndex = 0;
      place.classList.toggle("more", more && getComputedStyle(place).overflowX !== "visible");
    }
  };
  const WAIT = 200; // in ms, for what changes together
  const PATIENCE = 1000; // but no longer, where a long page is typeset
  let timer = 0;
  let first = 0;
  const later = () => {
    const now = performance.now();
    first ||= now;
    clearTimeout(timer);
    timer = setTimeout(() => {
      first = 0;
      reach();
    }, Math.max(0, Math.min(WAIT, first + PATIENCE - now)));
  };
  addEventListener("load", later);
  addEventListener("resize", later);
  addEventListener("fitted", later); // by maths.js
  document.addEventListener("toggle", later, true);
  document.addEventListener("scroll", ({ target }) => {
    if (target.matches?.(PLACES)) target.classList.toggle("more", isMore(target));
  }, true);
})();

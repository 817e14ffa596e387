// What scrolls to the side can be reached by keyboard: tables and code on a narrow screen. maths.js does so for formulas.
(() => {
  "use strict";
  const PLACES = "table, pre, .register-scroll, .pst-scrollable-table-container, .cell_output .text_html";
  const reach = () => {
    const article = document.querySelector("article");
    const places = [...article?.querySelectorAll(PLACES) ?? []];
    const scrolls = places.map((place) => place.scrollWidth > place.clientWidth && place.clientWidth);
    places.forEach((place, number) => {
      if (scrolls[number]) place.tabIndex = 0;
    });
  };
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(reach, 200);
  };
  addEventListener("load", later);
  addEventListener("resize", later);
  document.addEventListener("toggle", later, true);
})();

// Theorems and exercises can be linked to, as headings can. Links to claims: what a link leads to is shown where a
// reader points at it, by mouse, by keyboard or by finger.
(() => {
  "use strict";
  addEventListener("DOMContentLoaded", () => {
    for (const title of document.querySelectorAll(".admonition[id] > .admonition-title:has(.caption-number)")) {
      const link = Object.assign(document.createElement("a"), { className: "headerlink", textContent: "#" });
      link.href = `#${title.parentElement.id}`;
      link.title = `Link to this ${title.parentElement.matches(".exercise") ? "exercise" : "theorem"}`;
      link.ariaLabel = link.title;
      title.append(link);
    }
  });
  const LINK = "a.claim-link";
  const WAIT = { open: 120, close: 250 }; // ms: a mouse that passes by opens nothing, one on its way to the card keeps it
  let shown = null;
  let timer = 0;
  let touched = false;

  const place = () => {
    const { card, link } = shown;
    const [box] = link.getClientRects();
    const { offsetWidth: width, offsetHeight: height } = card;
    const below = box.bottom + 6 + height <= innerHeight || box.top < height + 6;
    card.style.left = `${Math.max(8, Math.min(box.left - 16, document.documentElement.clientWidth - width - 8))}px`;
    card.style.top = `${below ? box.bottom + 6 : box.top - 6 - height}px`;
  };
  const hide = () => {
    clearTimeout(timer);
    if (shown) shown.card.hidden = true;
    shown = null;
  };
  const show = (link) => {
    clearTimeout(timer);
    if (shown?.link === link) return;
    hide();
    shown = { link, card: document.getElementById(link.getAttribute("aria-describedby")) };
    shown.card.hidden = false;
    place();
    const now = shown;
    window.sumexpMaths?.typeset(shown.card).then(() => { if (shown === now) place(); });
  };
  const later = (what, wait) => {
    clearTimeout(timer);
    timer = setTimeout(what, wait);
  };
  const at = (event, selector) => event.target.closest?.(selector);

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = at(event, LINK);
    if (link) later(() => show(link), WAIT.open);
    else if (at(event, ".claim-card")) clearTimeout(timer);
    else if (shown && shown.link !== document.activeElement) later(hide, WAIT.close);
    else clearTimeout(timer);
  });
  document.addEventListener("focusin", (event) => {
    const link = at(event, LINK);
    if (link?.matches(":focus-visible")) show(link);
    else if (!at(event, ".claim-card")) hide();
  });
  // The first touch shows the card, which has the link; the second follows it.
  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (shown && !at(event, `${LINK}, .claim-card`)) hide();
  });
  document.addEventListener("click", (event) => {
    const link = at(event, LINK);
    if (!link || !touched || shown?.link === link) return;
    event.preventDefault();
    show(link);
  });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
  addEventListener("scroll", () => {
    if (!shown) return;
    const { top, bottom } = shown.link.getBoundingClientRect();
    if (bottom < 0 || top > innerHeight) hide();
    else place();
  }, { passive: true });
  addEventListener("resize", hide);
})();

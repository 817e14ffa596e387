// Under each page that the search finds: the section that has most of the words, as plain text, with a link to it.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;  // not the page for searching
  const DROPPED = "script, style, svg, nav, .headerlink, .math, mjx-container, details.hide, .claim-cards, .page-foot, .toctree-wrapper";
  const CONTEXT = 90;  // letters before the first word found
  const LENGTH = 240;

  const own = (section) => {
    const copy = section.cloneNode(true);
    copy.querySelectorAll("section").forEach((inner) => inner.remove());
    const heading = copy.querySelector("h1, h2, h3, h4");
    const title = heading ? heading.textContent.trim() : "";
    if (heading) heading.remove();
    return { id: section.id, title, text: copy.textContent.replace(/\s+/g, " ").trim() };
  };

  Search.makeSearchSummary = (html, keywords, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const main = page.querySelector("article") || page.querySelector('[role="main"]');
    if (!main) return null;
    main.querySelectorAll(DROPPED).forEach((part) => part.remove());
    const asked = [...keywords].map((word) => word.toLowerCase());
    const found = (text) => asked.filter((word) => text.toLowerCase().includes(word)).length;
    const sections = [...main.querySelectorAll("section[id]")].map(own);
    const named = sections.find(({ id }) => anchor && `#${id}` === anchor);
    const score = ({ title, text }) => 2 * found(title) + found(text);
    const best = named || sections.reduce((a, b) => (score(b) > score(a) ? b : a), { id: "", title: "", text: "" });
    if (!best.text && !best.title) return null;
    const places = asked.map((word) => best.text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const from = Math.max(0, Math.min(...(places.length ? places : [0])) - CONTEXT);
    const start = from ? best.text.indexOf(" ", from) + 1 : 0;
    const cut = best.text.slice(start, start + LENGTH);
    const summary = document.createElement("p");
    summary.className = "context";
    const link = document.createElement("a");
    link.textContent = best.title;
    summary.append(link, `${start ? " … " : " "}${cut}${start + LENGTH < best.text.length ? " …" : ""}`);
    // The list's entry, which knows the page's address, is above once the caller has put the summary there.
    queueMicrotask(() => {
      const entry = summary.closest("li")?.querySelector("a");
      if (entry) link.href = `${entry.getAttribute("href").split("#")[0]}#${best.id}`;
    });
    return summary;
  };
});

// The order of what the search finds, as Sphinx asks for it (html_search_scorer): what explains a word comes before what
// is merely called by it. Of equal marks a chapter goes before a page of reference, and one chapter before the next.
var Scorer = {
  // Sphinx's own marks; an entry of the index, made by sumexp_search.py, has up to 100.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, title, , description, score]) => {
    const query = document.querySelector('input[name="q"]').value.trim();  // Sphinx puts there what was asked for
    if (description !== null) {
      // An object. Who types a name of code, in_batch or StreamingLogQ, looks for it; who types words wants pages.
      const exact = `.${title}`.endsWith(`.${query}`) && /[a-z][A-Z]/.test(query);
      return exact || /^\S*[._]\S*$/.test(query) ? score + 100 : score - 50;
    }
    // A chapter's number stands in a tag of its own.
    const [, number, name] = title.replace(/<[^>]*>/g, "").match(/^(?:(\d+)\.\s+)?(?:The )?(.*)$/);
    if (name.toLowerCase() === query.toLowerCase()) return score + 100;
    if (page.startsWith("book/api/")) return score - 30;
    return number ? score + 6 - Number(number) / 100 : score;
  },
};

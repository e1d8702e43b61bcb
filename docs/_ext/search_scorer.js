// Order of search results: pages that explain come before the reference, among equals.
const EXPLAINS = /^(quick_start|which_model|guides\/|saving|scaling_out|compare|report|pictures|command_line|studio|speed)/;
var Scorer = {
  score: ([docname, title, anchor, description, score]) => score + (EXPLAINS.test(docname) ? 8 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

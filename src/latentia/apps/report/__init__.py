"""A report on a fitted classifier and a table: one HTML file without network or scripts.

- `page` puts the sections together, `style` has their looks, `elements` writes tables and figures,
  `svg` draws;
- `facts` holds what all sections ask: predictions, labels, names, and which rows they are about;
  `tables` reads and hides columns of arrays and frames;
- the sections: `data_sections` (the table, gaps), `score_sections` (candidates, errors,
  calibration), `factor_sections` (maps and loadings), `reason_sections` (what matters for each
  class), `row_sections` (rows to look at), `training_sections` (curves, how to reproduce).

A section is a function from facts to a `Section`, or None where the model cannot serve it.
"""

from latentia.apps.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]

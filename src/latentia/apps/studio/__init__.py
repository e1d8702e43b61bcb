"""Studio: a local page on which one sees what a model thinks of a table, and of a drawing.

- `server` binds the loopback address and runs; `guard` refuses what is not from the page itself;
  `routes` are the addresses that the page asks, `asked` reads what they get;
- `workspace` holds what is open: a table (`uploads`, `table_view`, `choices`), a fit (`fit_job`)
  and a model with its rows (`map_view`, `planes`, `row_view`, `gap_view`);
- `board` recognizes and completes drawn digits;
- `take_along` writes what can be kept: code and files;
- `static` is the page: plain JavaScript modules, no build step.

Needs the extra `studio`. Start with `workspace`.
"""

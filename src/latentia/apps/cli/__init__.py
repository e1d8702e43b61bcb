"""The command `latentia`: from a file to an answer.

- `app`: the commands, and how failures become one line and an exit code;
- `training_commands` (`fit`, `compare`, `report`), `answer_commands` (`predict`, `impute`,
  `sample`, `explain`), `demo`: what they do;
- `options`: what several commands ask for; `failures`: the exit codes; `models`: models from
  files; `usual_choices`: what `compare` sets beside them;
- `text_tables`: CSV and the like, strictly; `table_files`: all formats; `typed_columns`: kinds of
  columns, found or as a model knows them;
- `output_files`: what is written, and that nothing is overwritten by accident; `console`: what is
  shown, and progress.

`app` and what it imports need the extra `cli`; `demo` needs no more than the package.
"""

"""The command `latentia`: from a file to an answer.

- `app`: the commands, and how failures become one line and an exit code;
- `training_commands` (`fit`, `compare`, `report`), `answer_commands` (`predict`, `impute`,
  `sample`, `explain`), `demo`: what they do;
- `studio_command`: opens the page of `latentia.apps.studio`;
- `options`: what several commands ask for; `usual_choices`: what `compare` sets beside them;
- `output_files`: what is written, and that nothing is overwritten by accident; `console`: what is
  shown, and progress.

`app` and what it imports need the extra `cli`; `demo` needs no more than the package.
"""

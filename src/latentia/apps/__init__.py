"""Applications: what is built on the estimators for people with a table and a question.

- `cli`: the command `latentia`, from a file to an answer;
- `studio`: a local page on which one sees what a model thinks;
- `report`: one HTML page on a fitted classifier and a table;
- `tables`: how they read tables and models from files.

May import every other room; no other room imports this one. Start with `cli.app`.
"""

from typing import TypeAlias

from latentia.persistence.format import Json

#: What commands and pages answer.
JsonObject: TypeAlias = dict[str, Json]

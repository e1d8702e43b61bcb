"""How much Studio takes on: a page must answer at once, and a stranger's file must not fill the
memory.
"""

#: Bytes of a table, also once it is unpacked; of a model file; of any other request.
MAX_TABLE_BYTES = 16 << 20
MAX_MODEL_BYTES = 64 << 20
MAX_REQUEST_BYTES = 1 << 20

#: Seconds in which a request has to arrive, and after which a fit ends with what it has.
ARRIVAL_SECONDS = 20.0
FIT_SECONDS = 600.0

#: Size of a table that can be fitted and shown.
MAX_ROWS, MAX_COLUMNS = 20_000, 300

#: Labeled rows to learn from, at least.
MIN_LABELED = 6

#: Columns of a row whose contributions are found, and cells whose distribution is.
MAX_EXPLAINED, MAX_GAPS = 60, 24

#: Rows that are drawn from a model that comes without a table.
DRAWN_ROWS = 300

"""What the library answers, written down: a net for changes that nobody meant.

`scenarios` are many small fits and calls, a file for each room; `answers` holds what they returned, a JSON file each; `digest` reduces a
value to a few numbers and texts, `tables` has the data, `describe` asks a fitted estimator for all it knows. The laws elsewhere say that
numbers are right; this folder says only that they are the same. When a change of numbers is intended, write them again with

    python -m tests.reference [group ...]

and look at the difference.
"""

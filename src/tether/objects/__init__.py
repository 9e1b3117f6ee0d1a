"""The objects that users hold: what was observed, replayed; plans; guarantees; audits.

Each has the data and look-ups of a record of a lower folder, and a method for each question about it. A method passes
its question to the folder that answers it, which takes the record; folders are imported when they are asked.
May import: explorer, and what it may.
"""

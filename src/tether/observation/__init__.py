"""What really happened? One observed episode (`path`), or many as a log has them (`episodes`).

May import: model, and what model may.
"""

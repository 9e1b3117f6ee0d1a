"""The explorer: an interactive report in a browser. The page computes nothing; it shows what the library returned.

The walk of a question: the address bar holds the whole view (`view`). The server (`app`, guarded by `safety`) reads it
and passes it to the one thread that computes (`asking`), which keeps the last few episodes and answers
(`answer_cache`). `panels` make the contents of each part of the page, and the templates of `tether.views` put it
together. `offered` has the episodes to choose from, `server` listens and stops, `notebook` shows the page below a cell.
May import: views, and what they may.
"""

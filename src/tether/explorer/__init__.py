"""The explorer: the report, alive, in a browser. The page never computes; what it shows, the library returned.

The walk of a question: the address bar holds the whole view (`view`); the server (`app`, guarded by `safety`) reads it
and hands it to the one thread that computes (`asking`), which keeps the last few episodes and answers (`memory`);
`panels` say what each part of the page is made of, and the templates of `tether.views` put it together. `offered` is
what there is to choose from, `server` listens and stops, `notebook` shows the page below a cell.
May import: views, and what they may.
"""

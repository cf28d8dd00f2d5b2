"""Reports as pages: one HTML file with all that a launch on the machine has shown.

| file | contents |
|---|---|
| `model.py`, `page/` | the report as plain data; the page that embeds it: markup, style and script in one file |
| `sources.py`, `access.py` | parts of the data: source texts; gathers and scatters |
| `compare.py` | targets side by side |
"""

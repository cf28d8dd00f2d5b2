"""Reports as pages: one HTML file with all that a launch on the machine has shown.

| file | contents |
|---|---|
| `model.py` | the report as plain data, which the page embeds |
| `sources.py`, `spans.py`, `access.py` | its parts: source texts; time, live ranges and lines; gathers and scatters |
| `compare.py` | targets side by side |
| `html.py`, `page/` | the page: data, markup, style and script in one file |
"""

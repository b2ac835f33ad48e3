"""Reports: the HTML page of a run, its pictures, and what a terminal shows. Reads files; knows no torch."""

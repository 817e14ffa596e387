"""Building the book: what it consists of, what of it is to be computed, and how its pages come about.

- `inputs`: notebooks, test modules and the table of contents, and what each depends on;
- `plan`: what a build computes, made once and handed to its steps;
- `book`: the driver and its steps; `scheduler`: running commands side by side;
- `notebooks`: executing a notebook; `staging`, `pages`: laying out the book, rendering it and showing it in ``build/``;
- `measured`: tables of what executions cost, and of benchmarks;
- `why`: what changed since, what is there, and what can go.
"""

"""Building the book: what it consists of, what of it is to be computed, and how its pages come about.

- `plan`: the notebooks and test modules, what each depends on, and what a build computes;
- `book`: the driver, its steps, and what changed since the last build; `scheduler`: running commands in parallel;
- `notebooks`: executing a notebook; `staging`, `pages`, `rendering`: laying out the book, its pages, and ``build/``;
- `measured`: tables of what executions cost, and of benchmarks.
"""

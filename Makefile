# The book in two commands: `make book`, `make test`. `make help` lists the rest.
PYTHON ?= python3
TORCH ?= cpu
PROFILE ?= cpu
DEVICE ?= auto
CORES ?= $(shell getconf _NPROCESSORS_ONLN)
ONLY ?=
STORED ?=
GRID ?=
RUNS ?= 3
DRY ?=
PORT ?= 8000

ifeq ($(filter $(TORCH),cpu cuda),)
$(error TORCH is '$(TORCH)'; expected cpu or cuda)
endif

# Where a folder of wheels is configured torch comes from there; else uv knows where its CPU and CUDA builds are.
UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
ifneq ($(UV_FIND_LINKS),)
export UV_FIND_LINKS
else ifeq ($(TORCH),cpu)
TORCH_BACKEND = --torch-backend cpu
else
TORCH_BACKEND = --torch-backend auto
endif

RUN = .venv/bin/python -m
UV = $(RUN) uv pip
STORE = from claimbook.store import default; print(default().root)
# One stamp for each choice of TORCH, of which the last one made is kept: an interrupted or outdated installation is redone.
READY = .venv/ready-$(TORCH)

.PHONY: help book books pdf data runs check-results test test-builds test-peers references lint gpu bench proofs serve clean lock
.DELETE_ON_ERROR:

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16
	@echo "  Variables: PROFILE=smoke|cpu|paper  DEVICE=auto|cpu|cuda  CORES=n  ONLY=\"chapter ...\"  STORED=1  TORCH=cpu|cuda  PYTHON=python3.x"
	@echo "  of runs:  GRID=vae|fits|longtail|retrieval|catalogue  DRY=1"

book: $(READY) ## Execute the notebooks that are out of date and render the book: build/html/index.html
	@$(RUN) claimbook.cli book --profile '$(PROFILE)' --device '$(DEVICE)' --cores '$(CORES)' --only '$(ONLY)' --stored '$(STORED)'

books: $(READY) ## Build it four times, smoke and cpu, without data and with: stops at the first guard that fails
	@set -e; export SUMEXP_STORE="$$(.venv/bin/python -c '$(STORE)')"; for profile in smoke cpu; do \
	  SUMEXP_DATA= XDG_CACHE_HOME="$$PWD/build/no-data" $(MAKE) --no-print-directory book PROFILE=$$profile; \
	  $(MAKE) --no-print-directory book PROFILE=$$profile; \
	done

pdf: book ## Print the book with Chromium: build/sumexp.pdf (Debian: apt-get install chromium)
	@$(RUN) claimbook.cli pdf

runs: $(READY) ## Train what a chapter asks for before it is built: GRID=vae|fits|longtail|retrieval|catalogue, DRY=1 prints what it costs
	@$(RUN) claimbook.cli runs $(if $(DRY),list,run --cores '$(CORES)') --grid '$(GRID)' --profile '$(PROFILE)' --device '$(DEVICE)'

check-results: $(READY) ## Compute some of the runs that come with the book again, and compare: GRID=vae RUNS=3
	@$(RUN) claimbook.cli runs check --grid '$(GRID)' --runs '$(RUNS)' --device '$(DEVICE)'

data: $(READY) ## Fetch every data set that the book can read, more than 230 MB (`sumexp data fetch NAME` fetches one)
	@$(RUN) sumexp._command data fetch all

# With bytecode, even where none is asked for: assertions take each worker twelve seconds to rewrite.
TEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(RUN) pytest -n '$(CORES)' --dist loadscope --no-loadscope-reorder --max-worker-restart 0

test: $(READY) ## Run the tests, but for those of builds and pages
	$(TEST) --keep-evidence --ignore tests/builds

test-builds: $(READY) ## Build small projects and the book, and open its pages in a browser (Debian: apt-get install chromium)
	$(TEST) tests/builds

test-peers: $(READY) ## Hold the losses against other libraries, those that are installed in .venv
	TF_USE_LEGACY_KERAS=1 OMP_NUM_THREADS=1 $(RUN) pytest -q -m peers -rs

references: $(READY) ## Write anew the outputs that the tests compare with, and say so by failing; look at the difference
	$(RUN) pytest -q tests/book/test_reference_outputs.py --nb-force-regen

lint: $(READY) ## Check style, types, words and the direction of imports
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	.venv/bin/codespell README.md CONTRIBUTING.md SECURITY.md book notebooks claims src
	.venv/bin/lint-imports

gpu: $(READY) ## Try the GPU, in some minutes: tests of devices, speed, chapters at smoke; writes src/sumexp/measured/gpu.json
	$(TEST) -k 'accelerator or gpu' tests/accelerator tests/expectations tests/functional tests/perturb tests/samplers tests/vae
	$(RUN) benchmarks gpu

bench: $(READY) ## Measure what the book says about speed and memory
	$(RUN) benchmarks

proofs: $(READY) ## Have Coq check proofs/ (Debian: apt-get install coq libcoq-coquelicot)
	$(RUN) pytest -q -rs tests/proofs

serve: book ## Serve the book on this machine, PORT=8000
	$(RUN) http.server --bind 127.0.0.1 --directory build/html '$(PORT)'

clean: ## Remove the folder build/, a view of the store: the next build shows it again (`sumexp clean` tidies the store)
	rm -rf build

lock: $(READY) ## Resolve the newest versions that pyproject.toml allows and write constraints.txt and hashes.txt
	printf 'pip\nsetuptools\nuv\nwheel\n' | $(UV) compile -q --upgrade --generate-hashes --prerelease disallow --extra dev \
	  --no-annotate --no-header $(TORCH_BACKEND) -o hashes.new pyproject.toml -
	# Neither torch's local label and hashes nor the CUDA libraries, which it pins itself: the files serve CPU and CUDA.
	awk '/^[^ ]/ { left = /^(nvidia-|cuda-|triton)/; if (/^torch==/) { sub(/[+ ].*/, ""); print; left = 1 } } !left' hashes.new > hashes.txt
	{ sed -n '/^#/p' constraints.txt; sed -n 's/^\([^ ]\{1,\}\).*/\1/p' hashes.txt; } > constraints.new
	mv constraints.new constraints.txt
	rm hashes.new

$(READY): pyproject.toml constraints.txt hashes.txt
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "error: PYTHON is '$(PYTHON)', which is not Python 3.11 or newer; install one, or name it: make PYTHON=python3.12" >&2; exit 1; }
	'$(PYTHON)' -m venv .venv
	$(RUN) pip install -q --disable-pip-version-check -c constraints.txt uv
	$(UV) install --compile-bytecode -c hashes.txt $(TORCH_BACKEND) $(if $(filter-out $@,$(wildcard .venv/ready-*)),--reinstall-package torch) -e '.[dev]'
	$(RUN) compileall -q src
	@rm -f .venv/ready-*
	@touch $@

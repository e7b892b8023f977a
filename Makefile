# No activation is needed: everything runs from .venv in the checkout.
PYTHON ?= python3
BIN := .venv/bin
BENCH ?= build/bench

# The tests are timed for two cores: two workers, each with one thread for networks and linear algebra. numba keeps two
# threads, so that its kernels are tested in parallel, as they run. Each worker takes half of the tests, and the first to
# finish takes some of the other's; so most fixtures of a file are made once.
PYTEST := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=2 $(BIN)/pytest -n 2 --dist worksteal --durations 15

# The tests start many processes. They share compiled bytecode, whatever the environment says, so that each starts in half
# the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test bench lint style page docs clean

# Two pictures, and what remains visible by what is protected: demo/sheet.png. The set-up takes some minutes, the demo one.
demo: .venv/.demo
	$(BIN)/python examples/demo.py --output demo

# Types are checked beside the tests. Without the cache of an earlier check, that takes one core a minute or two.
with_types = @$(BIN)/mypy & types=$$!; $(PYTEST) $(1) || failed=1; wait $$types && test -z "$$failed"

# Before every commit: style, types and the quick unit tests.
check: style
	$(call with_types,tests/unit -m "not slow")

# The whole suite. The page is tested where it is built and a Chromium is installed.
test: style
	$(call with_types,)
	@{ command -v chromium && test -f site/play/index.html; } >/dev/null || \
		echo "The page was not tested: that takes \`make page\`, and Chromium."

lint: style
	$(BIN)/mypy

style: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/sections.py

# The page that runs in the browser, in site/play: `dipp page` serves it, and so can any static server. Needs Node.js 20
# or later; npm fetches the runtime of the network at the versions of web/package-lock.json. Before the build,
# the port of the integers is tested against Python's results. Documents that exist already get their button.
page: .venv/.test web/node_modules/.package-lock.json
	$(BIN)/python web/tools/vectors.py build/page/vectors.json
	cd web && npm run --silent check && npm run --silent test
	rm -rf build/page/content
	$(BIN)/python web/tools/content.py build/page/content
	cd web && npm run --silent build -- ../build/page/content ../site/play
	@if test -f site/index.html; then $(MAKE) docs; fi

# The documents as a site, in site/: open site/index.html. A page that `make page` built in site/play stays, and is linked.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/docs
	mkdir -p site
	find site -mindepth 1 -maxdepth 1 ! -name play -exec rm -r {} +
	cp -R build/docs/. site/
	@echo "site/index.html"

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund

# Every benchmark that needs neither a GPU nor data from elsewhere, cut down to a few minutes on two cores; JSON and
# plots go to the folder $(BENCH). This shows that the benchmarks run, and lets two commits be compared on one machine.
# The figures in docs/figures*.md are those of the full runs: docs/benchmarks.md names the command of each.
bench: .venv/.test
	mkdir -p $(BENCH)
	$(BIN)/python benchmarks/scoring.py cpu --quick --out $(BENCH)/scoring-cpu.json
	$(BIN)/python benchmarks/codec.py --quick --out $(BENCH)/codec-cpu.json
	$(BIN)/python benchmarks/quality.py --quick --out $(BENCH)/quality.json
	$(BIN)/python benchmarks/choice.py --quick --out $(BENCH)/choice.json
	$(BIN)/python benchmarks/privacy_pictures.py --quick --out $(BENCH)/privacy.png --json $(BENCH)/privacy.json
	$(BIN)/python benchmarks/visible.py --quick --out $(BENCH)/visible.jpg --json $(BENCH)/visible.json
	$(BIN)/python benchmarks/readers.py --quick --out $(BENCH)/readers.json --sheet $(BENCH)/plates.jpg
	$(BIN)/python benchmarks/startup.py --rounds 1 --out $(BENCH)/startup.json
	$(BIN)/python benchmarks/baseline.py --out $(BENCH)/baseline.json
	$(BIN)/python benchmarks/rivals.py --quick --out $(BENCH)/rivals.json
	$(BIN)/python benchmarks/schedule.py --quick --out $(BENCH)/schedule.json
	$(BIN)/python benchmarks/size.py --preset swift --largest 128 --output $(BENCH)
	$(BIN)/python benchmarks/privatize.py cpu --quick --rounds 1 --out $(BENCH)/datasets-cpu.json
	$(BIN)/python benchmarks/audit.py --quick --out $(BENCH)/audit.json --plot $(BENCH)/audit.png
	$(BIN)/python benchmarks/fit_zeta.py --quick --out $(BENCH)/fit_zeta.json
	$(BIN)/python benchmarks/gaussian_plot.py --out $(BENCH)/gaussian.png
	$(BIN)/python benchmarks/sensing_plot.py --out $(BENCH)/sensing.png
	$(BIN)/python benchmarks/scoring.py plot --out $(BENCH)/scoring.png
	$(BIN)/python benchmarks/quality_plot.py --out $(BENCH)/quality.png
	$(BIN)/python benchmarks/privatize.py plot --out $(BENCH)/datasets.png

# pip compiles no bytecode, which saves a minute; modules are compiled when they are first imported.
DOWNLOADS := echo "pip downloads 250 MB of packages, and PyTorch: on Linux 3 GB with CUDA, unless .venv has PyTorch."
PIP := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable

.venv/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@$(DOWNLOADS)
	$(PIP) .
	touch $@

.venv/.docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) ".[docs]"
	touch .venv/.demo $@

# All of the above at once.
.venv/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) ".[test]"
	touch .venv/.demo .venv/.docs $@

clean:
	rm -rf .venv demo build site web/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis

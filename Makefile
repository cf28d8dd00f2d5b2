# `make demo` shows what ptokit does, `make test` runs all checks. Both set up what they need.

PYTHON ?= python3
# python3 uses .venv; `make test PYTHON=python3.14` uses .venv-3.14.
PRINT_VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
VERSION := $(shell $(PYTHON) $(PRINT_VERSION))
ifeq ($(VERSION),)
$(error $(PYTHON) does not start; name another: make $(MAKECMDGOALS) PYTHON=python3.12)
endif
VENV   ?= $(if $(filter python3,$(PYTHON)),.venv,.venv-$(VERSION))
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := $(VENV)/.peers
SITE   := $(VENV)/.docs
EXTRA  := $(VENV)/.extras

# The tests of emitted C++ need a C++20 compiler: an installed one, else one from pip.
COMPILER := $(shell for c in g++ clang++ c++; do $$c -std=c++20 -fsyntax-only -x c++ /dev/null 2>/dev/null && echo $$c; done)
comma    := ,
# Tests of reports in a browser run where chromium is installed.
CHROMIUM := $(shell for c in chromium chromium-browser; do command -v $$c; done 2>/dev/null | head -n 1)
EXTRAS   := dev$(if $(COMPILER),,$(comma)cxx)$(if $(CHROMIUM),$(comma)browser)

# Bytecode is kept, whatever the environment says: tests start ptokit in some hundred processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test suite check generated test-pythons test-extras test-ptx test-gpu sanitize-gpu lint types fuzz fuzz-ray mutants agreement witness bench bench-gpu bench-torch bench-sharded docs pictures screenshots clean

demo: $(READY)
	$(BIN)/ptokit demo

# Lint and types run beside the tests: they take the time in which a worker starts, or waits for the last tests.
test: $(READY)
	@$(MAKE) --no-print-directory --keep-going --jobs 3 suite lint types THREADS=

# Assertions are plain: pytest takes 10 seconds of each process to rewrite them. Tests that fail run again with them rewritten.
suite: $(READY)
	$(BIN)/pytest -n auto --dist worksteal --assert=plain || \
	  { $(BIN)/pytest --last-failed --last-failed-no-failures none; exit 1; }

# Lint, types and the tests that can notice a change, in three minutes; `make check CHECK="--base main"`.
CHECK ?=

check: $(READY)
	$(BIN)/python tests/check $(CHECK)

# Everything that is generated from definitions: stubs, outcomes, lists, pages of hazards, pictures.
generated: $(READY)
	$(BIN)/python tests/generated.py

# The tests with PyTorch and Ray, which `make test` skips where these are not installed; a folder, a file or one of such
# tests stands here.
EXTRA_TESTS := tests/torch tests/sharded tests/test_torch_and_friends.py tests/test_torch_versions.py \
  tests/test_ops.py::test_torch_tensors tests/test_ops_along.py::test_the_node_tests_of_onnx \
  tests/test_ops_forms.py::test_advice_is_in_the_callers_own_library \
  tests/test_ops_forms.py::test_torch_tensors_take_all_forms \
  tests/lang/test_kernel.py::test_arrays_of_every_kind_are_worked_on_in_place tests/traces/test_torch_lookups.py \
  tests/traces/test_overlapping.py tests/traces/test_tables.py tests/lang/test_reads.py::test_what_torch_reads_is_refused \
  tests/test_messages.py::test_errors_of_torch_operators_are_bounded tests/test_short_path.py::test_torch_operators \
  tests/test_benchmarks.py::test_calls_of_one_size_do_the_work_of_calls_of_many \
  tests/test_benchmarks.py::test_a_row_of_operators_is_met_only_if_its_results_are_right

test-extras: $(EXTRA)
	$(BIN)/pytest -n auto --dist loadfile $(EXTRA_TESTS)
	$(BIN)/basedpyright --pythonpath $(BIN)/python --pythonversion $(VERSION) -p tests/torch

# The operators for PyTorch beside its own; with a GPU, there too.
bench-torch: $(EXTRA)
	$(BIN)/python benchmarks/torch_ops.py

# The programs of all examples of clauses and of the gallery as PTX, assembled; `make test` does so with some of them.
test-ptx: $(READY)
	PYTHONPATH=. $(BIN)/python -m tests.engine.cuda.assembly

# On a GPU of NVIDIA: the engine's own tests, and those of the native engine with the plugin.
NEEDS_GPU := import sys; from ptokit.engines import ENGINES; missing = ENGINES["cuda"].missing(); \
  sys.exit(missing and f"make $(MAKECMDGOALS) needs {missing} in $(VENV)")
ON_GPU := PYTHONPATH=. PTOKIT_TEST_GPU=1
PROGRAMS := tests/engine/native/test_launches.py tests/engine/native/test_programs.py tests/engine/native/test_calls.py

test-gpu: $(READY)
	@$(BIN)/python -c '$(NEEDS_GPU)'
	$(BIN)/pytest tests/gpu
	$(ON_GPU) $(BIN)/pytest -n 8 tests/engine/cuda/test_whole.py
	$(ON_GPU) $(BIN)/pytest -n 8 -p tests.engine.cuda.emulation $(PROGRAMS)
	PYTHONPATH=. $(BIN)/python -m tests.engine.cuda.gallery

# The gallery on a GPU under NVIDIA's checker, which comes with the CUDA toolkit.
sanitize-gpu: $(READY)
	@$(BIN)/python -c '$(NEEDS_GPU)'
	PYTHONPATH=. $(BIN)/python -m tests.engine.cuda.sanitize

# The language, the single calls and the gallery, on every supported Python of this machine.
test-pythons:
	$(PYTHON) tests/pythons.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/size.py

# One thread takes less of the processors than several, which read what they share once each.
THREADS ?= --threads

types: $(READY)
	$(BIN)/basedpyright --pythonpath $(BIN)/python --pythonversion $(VERSION) $(THREADS)

fuzz: $(EXTRA)
	PYTHONPATH=. PTOKIT_FUZZ=20 $(BIN)/pytest -n auto -p tests.bar tests/property tests/lang/test_random_kernels.py tests/program/test_auto_flags.py tests/lang/test_slices.py tests/lang/test_lengths.py tests/cxx/test_kernels.py tests/text/test_round_trips.py tests/text/test_fuzz.py tests/text/test_hostile.py tests/text/test_ptoas.py tests/text/test_cpp.py tests/test_readers.py tests/test_messages.py tests/cxx/test_round_trip.py tests/examples/test_gallery.py tests/conformance/test_outcomes.py
	PYTHONPATH=. PTOKIT_FUZZ=20 $(BIN)/pytest -n auto -p tests.bar tests/engine/native/test_calls.py tests/engine/native/test_programs.py tests/engine/native/test_guard_pages.py tests/engine/native/test_whole_native.py tests/engine/native/test_launches.py tests/engine/native/test_moves.py tests/engine/native/test_runs.py tests/engine/native/test_strategies.py tests/engine/native/test_native_compute.py tests/engine/cuda/test_programs_on_gpu.py tests/engine/cuda/test_units.py tests/engine/cuda/test_whole.py tests/engine/cuda/test_ptx.py tests/engine/cuda/test_bag_gradients.py
	PYTHONPATH=. $(BIN)/pytest -n auto -p tests.bar -p tests.engine.cuda.emulation tests/engine/native/test_calls.py tests/engine/native/test_programs.py tests/engine/native/test_launches.py
	PYTHONPATH=. $(BIN)/pytest -n auto -p tests.bar -p tests.engine.native.both tests/property tests/compute
	PYTHONPATH=. PTOKIT_FUZZ=20 $(BIN)/pytest -n auto -p tests.bar tests/machine/test_ground_truth.py tests/machine/test_clocks.py tests/machine/test_schedules_bite.py tests/machine/test_block_cache.py tests/machine/test_two_cores.py tests/machine/test_ground_truth_of_two_cores.py tests/machine/test_repairs.py tests/machine/test_repairs_of_two_cores.py tests/machine/test_gallery_on_machine.py tests/machine/test_values.py tests/machine/test_values_of_two_cores.py tests/machine/test_auto_kernels.py tests/machine/test_corpus.py tests/machine/test_findings.py tests/machine/test_blocks.py tests/machine/test_fit.py
	PYTHONPATH=. $(BIN)/pytest -n auto -p tests.bar -p tests.machine.both tests/conformance tests/property tests/compute tests/lang
	PYTHONPATH=. PTOKIT_FUZZ=20 $(BIN)/pytest -p tests.bar tests/sharded

# The tests of `make fuzz` as Ray tasks, file by file; RAY_ADDRESS names a cluster. `make fuzz-ray FUZZ="--only text --times 3"`.
FUZZ ?=

fuzz-ray: $(EXTRA)
	PYTHONPATH=. $(BIN)/python -m tests.fuzz_ray $(FUZZ)

# Small changes of isa/, engine/ and target/, each of which a test must notice; `make mutants MUTANTS="-j 16 --count 2000"`.
MUTANTS ?= -j 2 --count 240

mutants: $(READY)
	$(BIN)/python tests/mutation $(MUTANTS)

# How many of some such changes the tests of `make check` notice; `make agreement AGREEMENT="-j 8 --part 1/2"`.
AGREEMENT ?= -j 1 --count 50

agreement: $(READY)
	$(BIN)/python tests/mutation/agreement.py $(AGREEMENT)

# The tables of instructions beside the vendor's headers: `make witness PTO_ISA=a-checkout`.
WITNESS ?=

witness: $(READY)
	PYTHONPATH=. $(BIN)/python -m tests.witness $(PTO_ISA) $(WITNESS)

# The last six compare figures with requirements: all run, and each can fail.
bench: $(PEERS)
	$(BIN)/python benchmarks/eager.py
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/cli.py
	@failed=0; for file in launch machine growth cxx report peers; do $(BIN)/python benchmarks/$$file.py || failed=1; done; exit $$failed

bench-sharded: $(EXTRA)
	$(BIN)/python benchmarks/sharded.py

# On a GPU of NVIDIA: the table goes to benchmarks/results/.
bench-gpu: $(READY)
	@$(BIN)/python -c "import cupy, torch" 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),cuda,torch]"
	$(BIN)/python benchmarks/gpu.py

# The documentation as a site in build/site; a warning is an error. MkDocs Material reads the same mkdocs.yml.
docs: $(SITE)
	$(BIN)/python tests/site.py
	cd build && ../$(BIN)/zensical build --strict --clean
	@echo "build/site/index.html"

# docs/pictures, drawn by ptokit from programs and tables; a test draws them again.
pictures: $(READY)
	$(BIN)/python -W ignore tests/pictures.py

# An environment of another Python version is created again.
ifneq ($(VERSION),$(shell $(BIN)/python $(PRINT_VERSION) 2>/dev/null))
.PHONY: $(READY)
CLEAR := --clear
endif

$(READY): pyproject.toml
	$(PYTHON) -m venv $(CLEAR) $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@touch $@

# Pictures of reports for the documentation.
screenshots: $(READY)
	$(if $(CHROMIUM),,$(error make screenshots needs chromium, as in apt-get install chromium))
	PYTHONPATH=.:examples $(BIN)/python -m tests.report.screenshots docs/pictures

# A version of PyTorch that is installed already stays, as one for a GPU; else the newest that may have a CPU build.
TORCH ?= torch>=2.6,<2.14

$(EXTRA): $(READY)
	@$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),torch,ray,onnx]"
	@touch $@

$(PEERS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),peers]"
	@touch $@

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS),docs]"
	@touch $@

clean:
	rm -rf .venv .venv-* .pytest_cache .ruff_cache .hypothesis build dist

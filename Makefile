# 'make demo' and 'make test' do all the set-up they need, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
EXTRAS := transformers,openai,ray,math-verify,lab,teach,docs,test

# A module is compiled once, by whichever process imports it first, also where the environment would have each do it anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup data demo test lint run paper docs lessons bench clean parameters

setup: $(READY)

# Two steps: what the demo needs, then everything. The lock is used as constraints, not as a list: torch has other companions
# on other platforms. Most modules are never imported, so none is compiled here.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c requirements.lock
$(DEMO): requirements.lock requirements-demo.txt assets.txt pyproject.toml
	$(PYTHON) -c "import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else 'gsm8k_nb needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name another, as in make setup PYTHON=python3.12' % v[:2])"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# Several at a time; what that leaves out, or has wrong on this system, the second step finds.
	-@grep -v '^#' requirements-demo.txt | xargs -P 3 -n 32 $(INSTALL) --no-deps
	@# Meanwhile what the evaluation loads is compiled, on another core.
	@$(BIN)/python -c "import gsm8k_nb.reporting.page, gsm8k_nb.samplers.transformers" 2>/dev/null & \
		$(INSTALL) --no-deps -r assets.txt && $(INSTALL) -e '.[transformers]'; done=$$?; wait; exit $$done
	@# The kernel talks to this machine alone: that TCP is not encrypted, and that a kernel at its end is interrupted, only alarms.
	@sed -i.bak 's/"ipykernel_launcher",$$/"ipykernel_launcher", "--log-level=50",/' $(VENV)/share/jupyter/kernels/python3/kernel.json
	@touch $@
$(READY): $(DEMO)
	$(INSTALL) -e '.[$(EXTRAS)]'
	@touch $@

# GSM8K's official files and OpenAI's released solutions, fetched once from the paper's repository (8 MB), for what needs them.
data: $(DEMO)
	@$(BIN)/python -c "from gsm8k_nb import places; print(*map(places.official_file, places.OFFICIAL_FILES), sep='\n')"

# The main job: a real model on the bundled classroom set.
demo: run
run: P ?= params/smollm2.yaml
run: NOTEBOOK = outputs/$(basename $(notdir $(P))).ipynb
run: $(DEMO)
	@mkdir -p outputs
	$(BIN)/papermill notebooks/eval.ipynb $(NOTEBOOK) -f $(P) -k python3 --no-progress-bar
	@$(BIN)/python -m gsm8k_nb report $(P)
	@echo "notebook: $(NOTEBOOK)"

# The four systems of Cobbe et al. 2021, replayed two at a time, compared, and written up in outputs/paper/.
PAPER := params/paper/cobbe.yaml
paper: $(DEMO)
	@mkdir -p outputs/paper
	printf '%s\n' $(basename $(notdir $(wildcard params/cobbe-*.yaml))) | xargs -P 2 -I{} \
		$(BIN)/papermill notebooks/eval.ipynb outputs/{}.ipynb -f params/{}.yaml -k python3 --no-progress-bar
	$(BIN)/papermill notebooks/compare.ipynb outputs/paper/compare.ipynb -f $(PAPER) -k python3 --no-progress-bar
	$(BIN)/papermill notebooks/appendix.ipynb outputs/paper/appendix.ipynb -f $(PAPER) -k python3 --no-progress-bar
	@cat outputs/paper/conclusions.md
	@echo "tables, figures, appendix.tex: outputs/paper/"

# The site, docs/_build/html/index.html. Each notebook is executed into docs/notebooks/, and again only where it or the
# package changed: eval and the four steps share the demo's run folder, compare and appendix read the stored runs, replayed.
SITE := docs/_build/html
BOOKS := $(patsubst %,docs/%,$(wildcard notebooks/*.ipynb notebooks/lessons/*.ipynb))
COPIES := $(patsubst %,docs/%,$(wildcard notebooks/lessons/*.md bench/results/*.md bench/results/*.png))
PAGES := $(COPIES) $(wildcard docs/*.md docs/*.py *.md)
PACKAGE := $(wildcard gsm8k_nb/*.py gsm8k_nb/*/*.py gsm8k_nb/*/*/*.py gsm8k_nb/assets/* gsm8k_nb/answers/*.toml)
STORED := $(wildcard outputs/stored/*/*)
# Takes solutions and hidden tests out of an executed lesson, its outputs kept.
BLANK := jupyter-nbconvert --to notebook --inplace --log-level WARN \
    --NotebookExporter.preprocessors nbgrader.preprocessors.ClearSolutions \
    --NotebookExporter.preprocessors nbgrader.preprocessors.ClearHiddenTests
docs: docs/_build/.built
docs/_build/.built: $(BOOKS) $(PAGES)
	$(BIN)/sphinx-build -q -E -W --keep-going docs $(SITE)
	@touch $@
	@echo "site: $(SITE)/index.html"
docs/notebooks/%.ipynb: notebooks/%.ipynb $(PACKAGE) $(STORED) params/smollm2.yaml docs/compare.yaml | $(READY)
	@mkdir -p $(@D) $(dir docs/_build/running/$*)
	$(BIN)/papermill $< docs/_build/running/$*.ipynb $(VALUES) -k python3 --no-progress-bar
	@$(if $(findstring lessons/,$*),$(BIN)/$(BLANK) docs/_build/running/$*.ipynb)
	@mv docs/_build/running/$*.ipynb $@
$(COPIES): docs/%: %
	@mkdir -p $(@D)
	@cp $< $@
$(patsubst %,docs/notebooks/%.ipynb,eval 01_load 02_sample 03_score 04_report): VALUES = -f params/smollm2.yaml
$(patsubst %,docs/notebooks/%.ipynb,compare appendix): VALUES = -f docs/compare.yaml
$(patsubst %,docs/notebooks/%.ipynb,compare appendix): docs/_build/runs/.finished
docs/_build/runs/.finished: docs/stored.py $(STORED) $(PACKAGE) | $(READY)
	$(BIN)/python docs/stored.py outputs/stored $(@D)
	@touch $@
docs/notebooks/01_load.ipynb: docs/notebooks/eval.ipynb
docs/notebooks/02_sample.ipynb: docs/notebooks/01_load.ipynb
docs/notebooks/03_score.ipynb: docs/notebooks/02_sample.ipynb
docs/notebooks/04_report.ipynb: docs/notebooks/03_score.ipynb

# The lessons' sheets for students, without solutions and hidden tests, in an nbgrader course folder.
lessons: $(READY)
	@$(BIN)/python -m gsm8k_nb lessons outputs/lessons

# The notebooks' parameter cells, written from the configuration.
parameters: $(READY)
	@$(BIN)/python -m gsm8k_nb parameters

# Speed against other tools, about 40 minutes on two idle cores. Peers are found by LM_EVAL_PYTHON, VLLM, LLAMA_SERVER.
bench: ARGS ?=
bench: $(READY)
	$(BIN)/python -m bench $(ARGS)

# Two workers with a thread each; the last lines say what was skipped, why, and the command that would have run it.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -rs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m tests.budgets

clean:
	rm -rf $(VENV) build *.egg-info

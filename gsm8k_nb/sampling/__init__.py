"""The one loop of a run: skip what is on disk, generate what is missing, append each batch.

The same call starts a run, resumes one that was interrupted, extends one whose ``limit`` or ``n_samples`` was raised,
and asks again for failed requests. Where nothing is missing, no model is loaded. Ctrl-C and SIGTERM end it in order.
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import groupby, islice

from tqdm import tqdm

from gsm8k_nb.config import RunConfig
from gsm8k_nb.data import Dataset
from gsm8k_nb.prompts import PromptFormat, render, stops
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.runs import Inputs, Journal, Run, RunError
from gsm8k_nb.samplers import Request, Sampler, model_fingerprint, open_sampler
from gsm8k_nb.sampling import costs, manifest, smoke
from gsm8k_nb.sampling.interrupts import interruptible
from gsm8k_nb.sampling.thinking import completions

BAR_UPDATES = 20  # an executed notebook keeps every one
LONG_RUN = 8  # a run of so many times the smoke probe is worth a probe
Asked = tuple[Problem, int]  # a problem and a sample index


@dataclass(frozen=True)
class Sampled:
    """What one call of the sampling loop did, in samples."""

    requested: int
    on_disk: int
    generated: int
    failed: int
    not_asked: int  # in a dry run, or once the budget was spent
    damaged_rows: int


def begin(config: RunConfig, dataset: Dataset, problems: Sequence[Problem]) -> Run:
    """Open the run folder for these parameters and this data, and store its problems there."""
    run = Run(config.run_folder)
    facts = {f"data_{name}": getattr(dataset, name) for name in ("sha256", "label", "source", "verified")}
    inputs = Inputs(**facts, data_problems=len(dataset.problems))
    with run.writing():  # another process that samples here must not find its problems exchanged
        run.start(config, inputs, problems)
    return run


def plan(run: Run, config: RunConfig, problems: Sequence[Problem], form: PromptFormat) -> costs.Plan:
    """What ``fill`` would ask for: samples, tokens and, where there are prices, money. Nothing is sent or loaded."""
    journal, chat = run.journal(), config.chat_template != "plain"
    prompts = (render(form, problem.question, chat) for problem, _ in _missing(config, problems, journal))
    return costs.plan(config, prompts, journal.samples.values(), render(form, problems[0].question, chat))


def fill(run: Run, config: RunConfig, problems: Sequence[Problem], form: PromptFormat) -> Sampled:
    """Generate every missing sample of the run; samples are on disk batch by batch. Safe to interrupt and to repeat.

    With ``dry_run`` nothing is asked for; a ``budget`` may leave samples that were not asked for. RunError where the
    model, the data or the prompt is not that of the samples on disk, also where none is missing.
    """
    with run.writing():
        run.check_problems(problems)
        journal = run.journal()
        missing = _missing(config, problems, journal)
        needed = bool(missing) and not config.dry_run
        sampler, inputs = _prepare(run, config, form, needed)
        run.start(config, inputs)
        if sampler and needed:
            _Session(run, config, form, sampler, journal, missing[0][0]).generate(missing)
        elif journal.samples and not run.read_json("manifest.json"):
            manifest.Session(run, {}).write("sampled", {})
        after = run.journal().samples
    wanted = len(problems) * config.n_samples
    asked = [after[problem.id, index] for problem, index in missing if (problem.id, index) in after]
    failed = sum(sample.error is not None for sample in asked)
    return Sampled(
        requested=wanted,
        on_disk=wanted - len(missing),
        generated=len(asked) - failed,
        failed=failed,
        not_asked=len(missing) - len(asked),
        damaged_rows=journal.damaged,
    )


def _prepare(run: Run, config: RunConfig, form: PromptFormat, needed: bool) -> tuple[Sampler | None, Inputs]:
    """The engine, opened where it is ``needed``, and all that is known of what completions depend on; what can be known
    without the engine is compared with the run's before. A replay's source, which says how its texts were made, is
    always opened."""
    made_by = None if config.dry_run else model_fingerprint(config)
    exemplars, text = [shot.id for shot in form.exemplars], form.text or None
    inputs = Inputs(prompt_sha256=form.sha256, prompt_text=text, exemplar_ids=exemplars, model_fingerprint=made_by)
    run.check(config, inputs)
    if not needed and config.sampler != "replay":
        return None, inputs
    sampler = open_sampler(config)
    engine = sampler.describe()
    if config.sampler == "replay":
        opened = Inputs(replay_sha256=engine["source_sha256"], replay_config=engine["source_config"])
    else:
        chat = use_chat(config, sampler)
        opened = Inputs(chat=chat, stop=list(stops(form, chat)), exemplars_as="turns" if chat else "text")
        opened = opened.joined(Inputs(model_fingerprint=made_by or engine.get("fingerprint")))
    return sampler, inputs.joined(opened)


def _missing(config: RunConfig, problems: Sequence[Problem], journal: Journal) -> list[Asked]:
    """What is still to be asked, failed requests included; a problem's samples one after another."""
    final = config.sampler == "replay"  # what a source lacks it will never have: its content names the run
    done = {key for key, sample in journal.samples.items() if final or sample.error is None}
    wanted = ((problem, index) for problem in problems for index in range(config.n_samples))
    return [(problem, index) for problem, index in wanted if (problem.id, index) not in done]


def use_chat(config: RunConfig, sampler: Sampler) -> bool:
    """Whether prompts are rendered by the chat template: as the parameters say, ``auto`` where there is one."""
    if config.chat_template == "template" and not sampler.has_chat_template:
        raise ValueError(f"chat_template: {config.model!r} has no chat template; use chat_template: plain")
    return config.chat_template != "plain" and sampler.has_chat_template


class _Session:
    """One sitting with an engine."""

    def __init__(
        self, run: Run, config: RunConfig, form: PromptFormat, sampler: Sampler, journal: Journal, first: Problem
    ) -> None:
        self.run, self.config, self.form, self.sampler = run, config, form, sampler
        self.chat = use_chat(config, sampler)
        prompt = render(form, first.question, self.chat)
        if config.sampler != "replay" and not run.read_json("prompt.json"):
            run.write_json("prompt.json", {"problem_id": first.id, "prompt": prompt})
        self.purse = costs.Purse(config, journal.samples.values(), prompt)

    def generate(self, missing: list[Asked]) -> None:
        """Ask for all that is missing: of a long run a few first, which are looked at before the rest."""
        log, status = manifest.Session(self.run, self.sampler.describe()), "interrupted"
        long = self.config.sampler != "replay" and len(missing) >= LONG_RUN * self.config.smoke
        by_problem = groupby(missing, key=lambda pair: pair[0])
        probe = [next(asked) for _, asked in islice(by_problem, self.config.smoke if long else 0)]
        try:
            with _progress(len(missing)) as self.bar, interruptible() as self.safe:
                if seen := list(self.ask(probe)):
                    self.report_smoke(seen)
                for _ in self.ask([asked for asked in missing if asked not in probe]):
                    pass
            status = "sampled"
        except KeyboardInterrupt:
            name = self.run.folder.name
            print(f"\nInterrupted. What was finished is in {name}/samples.jsonl; run the same again to go on.")
            raise
        finally:
            with nullcontext() if status == "sampled" else suppress(RunError):  # the first error is the one to show
                log.write(status, self.sampler.describe())

    def ask(self, missing: list[Asked]) -> Iterator[Sample]:
        """Samples as they come, on disk before they are handed on. Ends where the budget does, with all under way."""
        while missing:
            answered: set[tuple[str, int]] = set()
            made = completions(self.sampler, self._requests(missing), stops(self.form, self.chat), self.config)
            with closing(made) as stream:
                for batch in stream:
                    try:
                        with self.safe():
                            self.run.append(batch)
                    except KeyboardInterrupt as interrupt:
                        self.run.append(stream.throw(interrupt))  # what has arrived; raises at once where nothing has
                        raise
                    self.purse.pay(batch)
                    self.bar.update(len(batch))
                    answered.update((sample.problem_id, sample.sample_index) for sample in batch)
                    yield from batch
            if not answered:
                return
            # A purse that had to count requests under way at their worst may have money left once they have ended.
            missing = [(problem, index) for problem, index in missing if (problem.id, index) not in answered]

    def _requests(self, missing: list[Asked]) -> Iterator[Request]:
        """Requests as an engine takes them: a problem's samples share one prompt, so memory does not grow with them."""
        for problem, asked in groupby(missing, key=lambda pair: pair[0]):
            prompt = render(self.form, problem.question, self.chat)
            for _, index in asked:
                if not self.purse.affords(prompt):
                    return
                yield Request(problem, index, prompt)

    def report_smoke(self, seen: list[Sample]) -> None:
        """Print what is odd about the first samples, with texts, and keep it in ``smoke.json``."""
        findings = smoke.look(seen, self.form, self.chat)
        self.run.write_json("smoke.json", {"findings": [asdict(finding) for finding in findings]})
        for finding in findings:
            print(f"\nLook before you wait: {finding}")
            for text in finding.texts:
                print(textwrap.indent(textwrap.shorten(text, 600, placeholder=" [...]"), "    "))


def _progress(total: int) -> tqdm:
    """A plain text bar of at most ``BAR_UPDATES`` lines: widgets break exports, and each redraw would be stored."""
    never = {"mininterval": 0, "maxinterval": float("inf"), "miniters": max(total // BAR_UPDATES, 1)}
    return tqdm(total=total, desc="samples", unit="sample", file=sys.stdout, ascii=True, ncols=80, **never)

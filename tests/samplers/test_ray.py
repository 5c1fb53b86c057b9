"""Workers on a local Ray: the same samples as one engine alone gives, also when a worker is killed."""

import os
import signal
from decimal import Decimal

import pytest

from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Problem, Sample
from gsm8k_nb.samplers import Request, SamplerError, open_sampler

pytest.importorskip("torch", reason="the transformers extra is not installed")
ray = pytest.importorskip("ray", reason="the ray extra is not installed")
from gsm8k_nb.samplers import ray as sampler  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One Ray for all of these tests, which the sampler finds and leaves as it is."""
    sampler.TRIES = 20  # whatever else the machine is doing
    assert sampler.connect(None) is True
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def pair(tiny_model, cluster):
    """A sampler of two workers, opened once."""
    return open_sampler(config_of(tiny_model))


@pytest.fixture
def no_share(monkeypatch):
    """Workers that ask for no core, so that they need not wait until those of another test have gone."""
    monkeypatch.setattr(sampler, "_share", lambda config, local: (0, 0))


def config_of(tiny_model, **changes) -> RunConfig:
    values = {
        "model": str(tiny_model), "sampler": "ray", "ray_workers": 2, "dtype": "float32", "device": "cpu",
        "max_new_tokens": 24, "batch_size": 4, "temperature": 0.9, "n_samples": 3,
    }  # fmt: skip
    return RunConfig(**values | changes)


def requests(problems: int, samples: int = 1) -> list[Request]:
    prompts = [f"{'Two pens. ' * (number % 5)}How many is {number}?" for number in range(problems)]
    made = [Problem(f"test-{number:04d}", text, "#### 1", Decimal(1)) for number, text in enumerate(prompts)]
    return [Request(problem, index, problem.question) for problem in made for index in range(samples)]


def texts(samples) -> dict[tuple[str, int], str]:
    return {(sample.problem_id, sample.sample_index): sample.text for sample in samples}


def one_engine(config: RunConfig, asked: list[Request]) -> dict[tuple[str, int], str]:
    alone = open_sampler(config.model_copy(update={"sampler": "transformers"}))
    return texts(sample for batch in alone.sample(asked, ()) for sample in batch)


def test_two_workers_give_what_one_engine_gives(pair):
    asked = requests(20, samples=3)
    assert pair.has_chat_template
    half = [sample for batch in pair.sample(iter(asked[:21]), ()) for sample in batch]
    rest = [sample for batch in pair.sample(asked[21:], ()) for sample in batch]  # of the same workers
    assert len(half) == 21 and len(half + rest) == 60
    assert texts(half + rest) == one_engine(pair.config, asked)
    facts = pair.describe()
    assert (facts["workers"], facts["worker_restarts"], facts["threads"], facts["workers_differ_in"]) == (2, 0, 1, [])
    assert facts["engine"].startswith(f"ray {ray.__version__}, 2 workers: transformers ")
    assert facts["sampling"]["method"] == "sampling" and facts["attention"] == "shared prefix"


@pytest.mark.usefixtures("no_share")
def test_greedy_is_the_same_too_and_a_killed_worker_loses_and_doubles_nothing(tiny_model):
    greedy = config_of(tiny_model, temperature=0.0, n_samples=1, max_new_tokens=32)
    opened, asked = open_sampler(greedy), requests(60)
    batches = opened.sample(asked, ())
    done = next(batches)
    [(_, process), *_] = opened.facts  # it has handed over at most a few pieces of its block
    os.kill(process, signal.SIGKILL)
    done += [sample for batch in batches for sample in batch]
    assert len(done) == len(asked) and texts(done) == one_engine(greedy, asked)
    assert opened.describe()["worker_restarts"] == 1


@pytest.mark.usefixtures("no_share")
def test_an_engines_error_is_one_line_in_its_own_words(tiny_model, tmp_path):
    with pytest.raises(SamplerError) as raised:
        open_sampler(config_of(tiny_model, model=str(tmp_path / "nothing"), ray_workers=1))
    assert str(raised.value).startswith("model: no such file or folder") and "\n" not in str(raised.value)


def test_an_error_while_sampling_ends_the_workers(pair):
    too_long = [Request(request.problem, 0, request.prompt * 100) for request in requests(2)]
    with pytest.raises(SamplerError, match=r"^max_new_tokens: .* lower max_new_tokens to \d+$"):
        list(pair.sample(too_long, ()))
    assert not pair.workers and pair.describe()["workers"] == 2


class StandIn:
    """A worker without a model: a sample a piece, its text the worker's process."""

    def __init__(self, values, threads):
        pass

    def ready(self):
        facts = {"process": ("here", os.getpid()), "restarted": False, "has_chat_template": False}
        return facts | {"engine": {"engine": "stand-in"}}

    def answer(self, block, stop):
        for request in block:
            yield [Sample(request.problem.id, request.sample_index, str(os.getpid()))]
        yield self.ready()


class Deadly(StandIn):
    def answer(self, block, stop):
        yield [Sample(block[0].problem.id, 0, "before the end")]
        os.kill(os.getpid(), signal.SIGKILL)


class Forgetful(StandIn):
    def answer(self, block, stop):
        yield from super().answer(block[:-1], stop)


@pytest.mark.usefixtures("no_share")
def test_a_block_that_kills_its_workers_is_given_up(tiny_model, monkeypatch):
    monkeypatch.setattr(sampler, "_Worker", Deadly)
    opened = open_sampler(config_of(tiny_model, ray_workers=1))
    with pytest.raises(SamplerError, match="3 workers died over the requests of test-000., .* fewer ray_workers"):
        list(opened.sample(requests(2), ()))
    assert not opened.workers


@pytest.mark.usefixtures("no_share")
def test_a_request_that_a_worker_forgets_is_said(tiny_model, monkeypatch):
    monkeypatch.setattr(sampler, "_Worker", Forgetful)
    opened = open_sampler(config_of(tiny_model, ray_workers=1))
    with pytest.raises(SamplerError, match="left 1 requests unanswered"):
        list(opened.sample(requests(2), ()))


@pytest.mark.usefixtures("no_share")
def test_workers_end_with_a_run_that_breaks_off_and_begin_anew_when_asked_again(tiny_model, monkeypatch):
    monkeypatch.setattr(sampler, "_Worker", StandIn)
    monkeypatch.setattr(sampler, "PATIENCE", 0)
    with pytest.warns(UserWarning, match="no Ray worker is ready after 0 s: .* each needs 0 cores"):
        opened = open_sampler(config_of(tiny_model, ray_workers=1))
    monkeypatch.setattr(sampler, "PATIENCE", 60)
    asked = requests(12)
    batches = opened.sample(asked, ())
    [first] = next(batches)
    batches.close()
    assert gone(int(first.text))
    done = [sample for batch in opened.sample(asked[1:], ()) for sample in batch]
    assert [sample.problem_id for sample in done] == [request.problem.id for request in asked[1:]]
    assert {sample.text for sample in done} != {first.text} and opened.describe()["worker_restarts"] == 0


def test_blocks_shrink_and_keep_problems_whole(tiny_model):
    asked = requests(100, samples=3)
    blocks = sampler.make_blocks(asked, config_of(tiny_model))
    sizes = [len(block) for block in blocks]
    assert sizes[:4] == [75, 57, 42, 33] and max(sizes[-3:]) <= 6
    assert [key for block in blocks for key in block] == [
        (request.problem.id, request.sample_index) for request in asked
    ]
    homes = [{name for name, _ in block} for block in blocks]
    assert sum(len(home) for home in homes) == 100
    few = sampler.make_blocks(requests(6), config_of(tiny_model, batch_size=32))
    assert [len(block) for block in few] == [3, 3]  # both workers have something to do
    assert not sampler.make_blocks([], config_of(tiny_model))


def test_cores_and_gpus_are_divided(tiny_model, monkeypatch):
    nodes = [{"Alive": True, "Resources": {"CPU": 8}}, {"Alive": True, "Resources": {"CPU": 4}}]
    monkeypatch.setattr(sampler.ray, "nodes", lambda: nodes)
    assert sampler._share(config_of(tiny_model, ray_workers=3), True) == (4, 0)
    nodes[0]["Resources"]["GPU"] = 4
    config = config_of(tiny_model, device="auto", ray_engine="vllm", tensor_parallel=2)
    assert sampler._share(config, True) == (1, 2)
    with pytest.raises(SamplerError, match="3 workers of 2 GPUs each, but Ray has 4 GPUs; set ray_workers: 2"):
        sampler._share(config.model_copy(update={"ray_workers": 3}), True)
    assert sampler._share(config.model_copy(update={"ray_workers": 3}), False) == (1, 2)  # a cluster may grow


def test_without_ray_or_a_cluster_it_says_what_to_do(tiny_model, monkeypatch):
    monkeypatch.setattr(sampler.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(sampler.ray, "shutdown", lambda: None)
    monkeypatch.setattr(sampler.ray, "init", absent)
    with pytest.raises(SamplerError, match="ray_address: 'auto' cannot be joined; start a cluster with 'ray start"):
        sampler.connect("auto")
    with pytest.raises(SamplerError, match="Ray could not be started here. Ray says: Could not find"):
        sampler.connect(None)
    monkeypatch.setattr(sampler, "ray", None)
    with pytest.raises(SamplerError, match=r"pip install 'gsm8k_nb\[ray\]'"):
        open_sampler(config_of(tiny_model))


def absent(**options):
    raise ConnectionError("Could not find any running Ray instance.")


def gone(process: int) -> bool:
    """Whether a process has ended, or ends without further ado."""
    for _ in range(600):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        signal.sigtimedwait([], 0.1)
    return False

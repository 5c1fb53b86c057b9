"""What is measured: one ``Piece`` for each process that generates text, in the order in which they run.

    Piece("ours", "bfloat16", problems=64, batch_size=64).name == "ours-bfloat16-64x1-8shot-batch64"

Pieces that two tables share are run once. The main comparison comes first, its systems in turns.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from gsm8k_nb.config import SMOLLM2
from gsm8k_nb.places import asset_path

OURS, LM_EVAL, GENERATE, PREFIX, VLLM, LLAMA = "ours", "lm_eval", "generate", "generate_prefix", "vllm", "llama_cpp"
ANY_BATCH = "ours_any_batch"  # ours with ``repeatable: false``: what it costs that a text is the same in any batch
BF16, F32, Q4 = "bfloat16", "float32", "Q4_1"
SHOTS = 8
BATCHES = {OURS: (64, 32, 16, 8, 1), LM_EVAL: (16, 32)}  # the first is the one used where batches are not compared
SERVED_AT_ONCE = 8  # slots of llama.cpp's server


@dataclass(frozen=True)
class Piece:
    """One process: a system, the dtype of the model, and how much it has to write."""

    system: str
    dtype: str
    problems: int
    batch_size: int
    n_samples: int = 1
    shots: int = SHOTS

    @property
    def name(self) -> str:
        size = f"{self.problems}x{self.n_samples}-{self.shots}shot-batch{self.batch_size}"
        return f"{self.system}-{self.dtype}-{size}"


def pieces(quick: bool = False) -> list[Piece]:
    """All of them; ``quick`` is the same plan on fewer problems, to try it out: its figures mean little."""
    parts = (main, over_samples, over_batch, over_shots)
    return list(dict.fromkeys(piece for part in parts for piece in part(quick)))


def main(quick: bool) -> list[Piece]:
    """Every system and dtype on the same problems, in turns: ours and each peer's, bfloat16 before float32."""
    n = 8 if quick else 64
    ours, lm_eval = ([Piece(name, dtype, n, BATCHES[name][0]) for dtype in (BF16, F32)] for name in (OURS, LM_EVAL))
    served = [Piece(LLAMA, Q4, n, SERVED_AT_ONCE), Piece(VLLM, BF16, n, n)]
    reused, plain = ([Piece(name, dtype, n, 32) for dtype in (BF16, F32)] for name in (PREFIX, GENERATE))
    return [ours[0], lm_eval[0], *served, ours[1], lm_eval[1], *reused, *plain]


def over_samples(quick: bool) -> list[Piece]:
    """N = 1, 8, 64 samples a problem at temperature 0.7 (N = 1 is greedy); lm-eval 8, each of which costs it the same.

    Ours writes 8 samples of all problems too: the more there are, the less its shared work counts.
    """
    few, n = (2, 8) if quick else (8, 64)
    batch = BATCHES[OURS][0]
    lm_eval = Piece(LM_EVAL, BF16, few, BATCHES[LM_EVAL][0], 8)
    ours = [Piece(OURS, BF16, few, batch, n_samples) for n_samples in (8, 1, 64)]
    return [Piece(OURS, BF16, n, batch, 8), lm_eval, *ours]


def over_batch(quick: bool) -> list[Piece]:
    n = 8 if quick else 64
    ours = [Piece(OURS, BF16, n, size) for size in BATCHES[OURS]]
    ours += [replace(piece, system=ANY_BATCH) for piece in ours]
    return ours + [Piece(LM_EVAL, dtype, n, size) for dtype in (BF16, F32) for size in BATCHES[LM_EVAL]]


def over_shots(quick: bool) -> list[Piece]:
    n = shots_problems(8 if quick else 64)
    systems = [Piece(OURS, BF16, n, BATCHES[OURS][0]), Piece(LM_EVAL, BF16, n, BATCHES[LM_EVAL][0])]
    return [replace(piece, shots=shots) for shots in (0, 2, 4, 8) for piece in systems]


def shots_problems(n: int) -> int:
    """Problems on which the number of exemplars is varied: half of the main ones."""
    return n // 2


def model_file() -> Path:
    """SmolLM2 as the GGUF file of its package; llama.cpp reads it as it is, the others a conversion of it."""
    package, _, inside = SMOLLM2.removeprefix("package:").partition("/")
    return asset_path(package, f"{package}/{inside}")

"""Logs of other evaluation tools in, records for other tools out.

    python -m gsm8k_nb import samples_gsm8k_cot_2026-11-30T08-16-21.jsonl     a run folder from another tool's log
    python -m gsm8k_nb export outputs/RUN --organisation "A University"       every-eval-ever files from a run

A file (``files``) becomes rows, rows a ``Log`` of entries (``reading``, by ``assets/logs.toml`` and ``tools``), entries
find their problems (``aligning``) and are written as a run folder (``importing``), a run as records (``exporting``).
"""

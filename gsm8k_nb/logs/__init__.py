"""Logs of other evaluation tools in, records for other tools out.

    python -m gsm8k_nb import samples_gsm8k_cot_2026-11-30T08-16-21.jsonl     a run folder from another tool's log
    python -m gsm8k_nb export outputs/RUN --organisation "A University"       every-eval-ever files from a run

A file becomes rows (``files``), rows of a known format (``formats`` reads them, ``tools`` and ``lm_eval`` describe
them) become a ``Log``, its completions find their problems (``aligning``) and are written as a run (``importing``).
"""

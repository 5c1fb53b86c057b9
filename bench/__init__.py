"""What the package costs and how it compares: ``python -m bench`` (or ``make bench``) measures it all in one go.

``plan`` says what is run, ``systems`` how each system is started, ``workers/`` has one script a system, ``house`` times
what is not a model's work, ``roofline`` asks how fast the machine can be, ``writing`` makes the tables and figures.
"""

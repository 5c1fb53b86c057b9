"""gsm8k_nb: measure how well a language model solves GSM8K, and save each run as a report that anyone can rerun.

The notebooks hold the story; the modules here are the small functions they call. Importing the package is cheap: an
engine (torch, transformers) or the ``datasets`` library is imported by the function that needs it, when it is called.
"""

import warnings

__version__ = "0.1.0"

# tqdm asks for ipywidgets whenever it is imported in a notebook; our progress is plain text, which exports keep.
warnings.filterwarnings("ignore", message="IProgress not found")

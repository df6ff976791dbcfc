"""Turns off what other packages say on stderr while they are imported and used; import it before them."""

import logging
import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package: nothing is fetched
os.environ.setdefault("TQDM_DISABLE", "1")  # gguf's progress bar
# transformers imports torchao, which tells at length which of its GPU kernels it did not load.
for _name in ("torchao", "torch.utils._pytree"):
    logging.getLogger(_name).setLevel(logging.ERROR)
# torch copies programs with a class that it has deprecated itself.
warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
# torch.export sees transformers collect outputs; ExecuTorch speaks of initial values, which trt_export keeps.
for _message in ("While compiling, we found certain side effects", "Mutation on a buffer"):
    warnings.filterwarnings("ignore", message=_message, category=UserWarning)

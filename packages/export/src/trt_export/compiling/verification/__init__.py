"""Verification: engines, or the ONNX models that they are built of, are compared with PyTorch.

Converters ignore some arguments without a word, and optimizers assume what is not so. A parser takes such a model
gladly, so only its numbers tell. docs/verification.md says what is compared and how.
"""

from trt_export.compiling.verification.candidate import INT8_PRODUCTS, Candidate
from trt_export.compiling.verification.verifier import Findings, Verifier

__all__ = ["INT8_PRODUCTS", "Candidate", "Findings", "Verifier"]

"""ExecuTorch's side: `.pte` programs, their delegates, and the engines that these run."""

"""SGLang on a CPU with speculative decoding: an out-of-tree platform and plain torch reference operations."""

"""Memory that the engine manages itself: the KV pools and their accounting."""

from __future__ import annotations

from ..model import RESTART, Rule

RULES = (
    Rule(
        name="kv-pool-leak",
        fault="kv_pool_leak",
        looks_like=(
            r"\b(?:\w*pool\w*|KV cache) memory leak detected",
            r"\bKV (?:double free|page use-after-free)\b",
            r"\bdouble free (?:of|in|detected in) (?:\w+ )?(?:kv|token|page|slot)",
            r"\bdouble free detected\b[^\n]{0,300}(?:pool|slot|page|kv)",
            r"\bToken(?:ToKV)?Pool\w* (?:leak|corrupt)",
        ),
        anchors=("memory leak detected", "double free", "use-after-free", "leak", "corrupt"),
        why="SGLang's own books of KV slots do not add up: slots are lost or used twice",
        example="ValueError: token_to_kv_pool_allocator memory leak detected! available_size=1000, protected_size=8",
        look_alike="resource_tracker: There appear to be 1 leaked semaphore objects to clean up at shutdown",
        promoted=RESTART,
        unless=r"^\[?WARN|resource_tracker",
    ),
    Rule(
        name="kv-exhausted",
        fault="kv_exhausted",
        looks_like=(
            r"\balloc_\w+ runs out of memory",
            r"\b(?:Prefill|Decode|Extend) out of memory\. (?:Try|Please)",
            r"\bNo space left in the KV cache\b",
            r"Out of memory\. Please set a smaller number for",
            r"\bKV cache (?:pool )?is (?:full|exhausted)\b(?!\. ?Retract)",
            r"\bNo available memory for the cache blocks",
            r"\bNot enough memory\. Please try to increase --mem-fraction-static",
            r"\bmax seq len \(\d+\) is larger than the maximum number of tokens that can be stored",
            r"\bKV cache is (?:needed|required),? which is larger than the available KV cache memory",
            r"\bmax_total_num_tokens\b[^\n]{0,40} (?:is too small|too small|<= ?0)",
            r"in alloc_(?:for_extend|for_decode|paged_token_slots_\w+|token_slots|req_slots)\b",
            r"\b(?:Loading weights|Weights?)[^\n]{0,40}not enough GPU memory",
        ),
        anchors=(
            "out of memory",
            "no space left in the kv",
            "kv cache",
            "no available memory",
            "not enough memory",
            "max seq len",
            "max_total_num_tokens",
            "in alloc_",
            "not enough gpu memory",
        ),
        why="no KV slot is left for a request that was already let in: the settings allow more than fits",
        example="RuntimeError: Decode out of memory. Try to lower your batch size.",
        look_alike="KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_token_ratio: 0.55 -> 0.81",
        promoted=RESTART,
        unless=r"\bretract",
    ),
)

//! Prefetch, hash and SIMD compare, each with a scalar twin.

//! Products in eight lanes, compiled for AVX-512 without IFMA.

super::wide::entries!(Avx512F);

//! Products in eight lanes, compiled for AVX-512 IFMA.

super::wide::entries!(Ifma);

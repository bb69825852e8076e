"""Writes primitive.rsp: keys by the package cryptography, signatures by Python's own pow().

    python3 vectors/rsa/generate.py > vectors/rsa/primitive.rsp
"""

import hashlib

from cryptography.hazmat.primitives.asymmetric import rsa

KEYS = [(2048, 65537), (2048, 3), (3072, 65537), (4096, 65537)]
RANDOM = 12


def representatives(key, modulus, primes):
    """Numbers below the modulus: edges of the arithmetic, then hashes."""
    p, q = primes
    half = modulus.bit_length() // 2
    yield from (0, 1, 2, modulus - 1, modulus - 2, p, q, modulus - p, modulus - q)
    yield from (1 << half, (1 << half) - 1, 1 << 2 * half - 1, (modulus >> half) << half)
    # The lowest bits of a number of whole blocks of 260 bits, and the bits above them.
    blocks = half // 256 * 260
    yield from ((1 << blocks) - 1, modulus >> blocks << blocks)
    for i in range(RANDOM):
        seed = b"%d %d" % (key, i)
        yield int.from_bytes(hashlib.shake_256(seed).digest(2 * half // 8), "big") % modulus


def main():
    for i, (bits, exponent) in enumerate(KEYS):
        private = rsa.generate_private_key(exponent, bits).private_numbers()
        modulus, p, q = private.public_numbers.n, private.p, private.q
        print(f"\n[mod = {bits}]")
        numbers = {"n": modulus, "e": exponent, "d": private.d, "p": p, "q": q}
        numbers |= {"dP": private.dmp1, "dQ": private.dmq1, "qInv": private.iqmp}
        for name, value in numbers.items():
            print(f"{name} = {value:0{2 * ((value.bit_length() + 7) // 8)}x}")
        for number in representatives(i, modulus, (p, q)):
            print(f"\nm = {number:0{bits // 4}x}\ns = {pow(number, private.d, modulus):0{bits // 4}x}")


main()

#!/usr/bin/env bash
# Creates the PEM vectors in this folder again with the openssl command (3.0 or later). The keys change; README.md says what each
# file must mean, and the tests derive the expected public keys from the *.pub.pem beside them.
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.pem

make_curve() { # short name, openssl's curve name
    local name=$1 curve=$2
    openssl ecparam -name "$curve" -genkey -noout -out "$name.sec1.pem"
    openssl ec -in "$name.sec1.pem" -pubout -out "$name.pub.pem"
    openssl pkcs8 -topk8 -nocrypt -in "$name.sec1.pem" -out "$name.pkcs8.pem"
    openssl ec -in "$name.sec1.pem" -no_public -out "$name.sec1-no-public.pem"
    openssl pkey -in "$name.sec1-no-public.pem" -out "$name.pkcs8-no-public.pem"
    { openssl ecparam -name "$curve"; cat "$name.sec1.pem"; } > "$name.sec1-parameters.pem"
    openssl ec -in "$name.sec1.pem" -param_enc explicit -out "$name.sec1-explicit.pem"
    openssl pkey -in "$name.sec1.pem" -ec_param_enc explicit -out "$name.pkcs8-explicit.pem"
    { openssl ecparam -name "$curve" -param_enc explicit; cat "$name.sec1.pem"; } > "$name.explicit-parameters.pem"
    sed 's/$/\r/' "$name.pkcs8.pem" > "$name.pkcs8-crlf.pem"
    openssl pkey -in "$name.sec1.pem" -text -out "$name.pkcs8-text.pem"
    openssl ec -in "$name.sec1.pem" -aes256 -passout pass:vector -out "$name.sec1-encrypted.pem"
    openssl pkcs8 -topk8 -in "$name.sec1.pem" -passout pass:vector -out "$name.pkcs8-encrypted.pem"
    head -n 3 "$name.sec1.pem" > "$name.truncated.pem"
    { sed -n 1,2p "$name.pkcs8.pem"; echo "-----END PRIVATE KEY-----"; } > "$name.truncated-content.pem"
    cat "$name.sec1.pem" "$name.pkcs8.pem" > "$name.two-keys.pem"
    # SEC1 with no named curve and no public key: 30 25 02 01 01 04 20, then the scalar.
    { printf '\x30\x25\x02\x01\x01\x04\x20'
      openssl ec -in "$name.sec1-no-public.pem" -outform DER 2>/dev/null | dd bs=1 skip=7 count=32 status=none; } > bare.der
    { echo "-----BEGIN EC PRIVATE KEY-----"; base64 -w 64 bare.der; echo "-----END EC PRIVATE KEY-----"; } > "$name.sec1-bare.pem"
    rm bare.der
    # The public key of another private key.
    openssl ecparam -name "$curve" -genkey -noout -outform DER -out other.der
    openssl ec -in "$name.sec1.pem" -outform DER -out own.der
    { head -c -65 own.der; tail -c 65 other.der; } > mixed.der
    { echo "-----BEGIN EC PRIVATE KEY-----"; base64 -w 64 mixed.der; echo "-----END EC PRIVATE KEY-----"; } > "$name.mismatch.pem"
    rm own.der other.der mixed.der
}

make_curve r1 prime256v1
make_curve k1 secp256k1
openssl ecparam -name secp384r1 -genkey -noout -out other.p384.pem
openssl genpkey -algorithm ed25519 -out other.ed25519.pem
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out other.rsa.pem
# As long as its length says and with a scalar of zeros, which is no private key.
{ printf '\x30\x25\x02\x01\x01\x04\x20'; head -c 32 /dev/zero; } > zero.der
{ echo "-----BEGIN EC PRIVATE KEY-----"; base64 -w 64 zero.der; echo "-----END EC PRIVATE KEY-----"; } > other.zero.pem
rm zero.der

"""Connects with pyOpenSSL, whose OpenSSL is 3.5 or newer, and prints the group of the key exchange, or why there is no connection.

    python tls_groups.py PORT CA CERTIFICATE KEY [classic]

`classic` offers P-256 alone, as an older client does. Run by the interpreter of requirements-tls.txt.
"""

import socket
import sys

from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL


def main(port: str, ca: str, certificate: str, key: str, *groups: str) -> None:
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.load_verify_locations(ca)
    context.set_verify(SSL.VERIFY_PEER)
    context.use_certificate_file(certificate)
    context.use_privatekey_file(key)
    if groups:
        context.set_tmp_ecdh(ec.SECP256R1())
    connection = SSL.Connection(context, socket.create_connection(("127.0.0.1", int(port)), timeout=60))
    connection.setblocking(True)
    connection.set_tlsext_host_name(b"localhost")
    connection.set_connect_state()
    try:
        connection.do_handshake()
    except SSL.Error as error:
        print("refused:", error)
    else:
        print(connection.get_group_name())


main(*sys.argv[1:])

// When the chain of an engine's certificate expires, as it was verified for a connection.
//
// Node gives the certificates that the engine has sent, in its order, rather than the chain that was verified: the authority may be missing
// there, and other certificates may be among them. So the chain is searched for again, in what the engine has sent and this side trusts.

import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';

/** A certificate, and when the first one of the chain up to it expires. */
interface Link {
  readonly certificate: X509Certificate;
  readonly expiry: number;
}

/**
 * When the first certificate of the verified chain expires, its authority included, in milliseconds of Unix time. Of several chains, the
 * longest-lived one counts.
 *
 * @param authorities PEM, as given to TLS
 */
export function chainExpiry(socket: TLSSocket, authorities: string | Buffer): number {
  const [leaf, ...others] = sent(socket);
  if (!leaf) return 0;
  const trusted = parse(authorities);
  const now = Date.now();
  let issuers = [...trusted, ...others.filter(({ ca }) => ca)].filter(({ validFrom }) => Date.parse(validFrom) <= now);
  // An issuer is reached first by the longest-lived chain, because the ends of those are followed first.
  const ends: Link[] = [{ certificate: leaf, expiry: Date.parse(leaf.validTo) }];
  for (let end = ends.pop(); end; end = ends.pop()) {
    const { certificate, expiry } = end;
    if (certificate.checkIssued(certificate) && trusted.some(({ raw }) => raw.equals(certificate.raw))) return expiry;
    const found = issuers.filter((issuer) => isIssuedBy(certificate, issuer));
    issuers = issuers.filter((issuer) => !found.includes(issuer));
    ends.push(...found.map((issuer) => ({ certificate: issuer, expiry: Math.min(expiry, Date.parse(issuer.validTo)) })));
    ends.sort((first, second) => first.expiry - second.expiry);
  }
  return Date.parse(leaf.validTo);
}

/** The engine's certificate, and those sent with it. */
function sent(socket: TLSSocket): X509Certificate[] {
  const certificates = [];
  for (let next = socket.getPeerX509Certificate(); next; next = next.issuerCertificate) certificates.push(next);
  return certificates;
}

function parse(pem: string | Buffer): X509Certificate[] {
  const blocks = pem.toString().match(/-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----[^-]+-----END \1-----/g) ?? [];
  return blocks.flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      // TLS did without it, too.
      return [];
    }
  });
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    // A key of a kind that is unknown here.
    return false;
  }
}

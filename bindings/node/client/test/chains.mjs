// Chains of certificates that expire when a test wants: a root, an authority below it, and the certificate of an engine below that.

import { createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

// DER, ITU-T X.690.
const tagged = (tag, ...parts) => {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = content;
  const form = length > 0xff ? [0x82, length >> 8] : length > 0x7f ? [0x81] : [];
  return Buffer.concat([Buffer.from([tag, ...form, length & 0xff]), content]);
};
const sequence = (...parts) => tagged(0x30, ...parts);
const bits = (bytes) => tagged(0x03, [0], bytes);
const time = (at) => tagged(0x17, Buffer.from(`${at.toISOString().replace(/^..|[-:T]|\..*/g, '')}Z`));
const COMMON_NAME = tagged(0x06, [0x55, 4, 3]);
const ECDSA_SHA256 = sequence(tagged(0x06, Buffer.from('2a8648ce3d040302', 'hex')));
const name = (text) => sequence(tagged(0x31, sequence(COMMON_NAME, tagged(0x0c, Buffer.from(text)))));
const extension = (last, ...parts) => sequence(tagged(0x06, [0x55, 0x1d, last]), tagged(0x01, [0xff]), tagged(0x04, sequence(...parts)));
const AUTHORITY = extension(19, tagged(0x01, [0xff]));
const LOCALHOST = extension(17, tagged(0x87, [127, 0, 0, 1]));

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

/** A certificate that is valid until `end`; without an issuer, one that signs itself. */
export function link(subject, issuer, end, { isAuthority = true, key = newKey() } = {}) {
  const body = sequence(
    tagged(0xa0, tagged(0x02, [2])),
    tagged(0x02, [1], randomBytes(8)),
    ECDSA_SHA256,
    name(issuer?.subject ?? subject),
    sequence(time(new Date(Date.now() - 86_400_000)), time(end)),
    name(subject),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(isAuthority ? AUTHORITY : LOCALHOST)),
  );
  const der = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, issuer?.key ?? key)));
  const pem = `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
  return { subject, key, pem };
}

/** A chain of which the parts, from the root down, expire then. Its root has a name of its own. */
export function chain([root, between, leaf]) {
  const top = link(`root ${randomBytes(4).toString('hex')}`, undefined, root);
  const middle = link('between', top, between);
  return { root: top, between: middle, leaf: link('engine', middle, leaf, { isAuthority: false }) };
}

/** The chain that an engine sends: its certificate and those of the authorities that are given. */
export function shown({ leaf }, ...authorities) {
  return { key: leaf.key.export({ type: 'sec1', format: 'pem' }), cert: [leaf, ...authorities].map(({ pem }) => pem).join('') };
}
